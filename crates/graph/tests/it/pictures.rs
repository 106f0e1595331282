//! Pictures: what is drawn, and that it is well-formed whatever the names are.

#![expect(unsafe_code, reason = "adds kernels")]

use super::support::run;
use cuhold_graph::{
    BatchOperation, Edge, EdgeKind, Graph, Node, SharedHost,
    handles::LaunchConfig,
    memory::{Buffer, HostBuffer},
};
use cuhold_testkit::Kit;
use std::{env, fs, path::Path};

fn graph(t: &Kit) -> Graph {
    Graph::new(t.context()).unwrap()
}

/// Leaves a picture where somebody who asked for it finds it.
fn keep(name: &str, svg: &str) {
    if let Ok(folder) = env::var("CUHOLD_PICTURES") {
        fs::write(Path::new(&folder).join(name), svg).unwrap();
    }
}

/// Reads a document as XML, as far as this crate writes it: names of elements nest, attributes are quoted, text is escaped.
/// Gives how many elements of each name there are.
fn elements(svg: &str) -> Vec<String> {
    let (mut open, mut all, mut rest) = (Vec::new(), Vec::new(), svg.trim_end());
    while let Some(at) = rest.find('<') {
        let (text, tag) = rest.split_at(at);
        assert!(!text.contains('>'), "{text}");
        for entity in text.split('&').skip(1) {
            let name = entity.split(';').next().unwrap();
            assert!(["amp", "lt", "gt", "quot", "#39"].contains(&name), "{name}");
        }
        let end = tag.find('>').unwrap();
        let inside = &tag[1..end];
        rest = &tag[end + 1..];
        if let Some(name) = inside.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        assert_eq!(inside.matches('"').count() % 2, 0, "{inside}");
        let name = inside.split(' ').next().unwrap().trim_end_matches('/').to_owned();
        all.push(name.clone());
        if !inside.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty() && rest.is_empty(), "{open:?} {rest:?}");
    all
}

fn count(elements: &[String], name: &str) -> usize {
    elements.iter().filter(|element| *element == name).count()
}

/// A graph with nodes of most kinds, bodies and a child graph.
fn of_everything(t: &Kit) -> Graph {
    let stream = t.device().new_stream().unwrap();
    let (nop, fill) = (t.kernels().kernel("nop").unwrap(), t.kernels().kernel("fill").unwrap());
    let event = t.context().new_event().unwrap();
    let mut words = Buffer::<u32>::zeroed(&stream, 1 << 20).unwrap();
    let other = Buffer::<u32>::zeroed(&stream, 1 << 20).unwrap();
    let host = SharedHost::new(HostBuffer::<u32>::zeroed(t.context(), 1 << 20).unwrap());
    let config = LaunchConfig::new([64, 2, 1], [256, 1, 1]);
    // SAFETY: the kernel takes nothing and does nothing.
    let kernel = |graph: &mut Graph, after: &[Node]| unsafe {
        graph.kernel(after, &nop, config, ()).unwrap()
    };
    let mut step = graph(t);
    let first = kernel(&mut step, &[]);
    let (left, right) = (kernel(&mut step, &[first]), kernel(&mut step, &[first]));
    step.fill(&[left, right], &mut words, 1).unwrap();
    let mut graph = graph(t);
    let begin = graph.host(&[], || {}).unwrap();
    graph.set_label(begin, "prepare <input> & \"go\"").unwrap();
    let up = graph.copy_from_shared(begin, &mut words, &host).unwrap();
    let scratch = graph.empty(begin).unwrap();
    let filled = graph.fill(scratch, &mut words, 0x7f).unwrap();
    // SAFETY: *layout*: a pointer and two words, as `fill` takes; *bounds*: 1 << 20 words.
    let work = unsafe { graph.kernel(&[up, filled], &fill, config, (&words, 1_u32, 1_u32 << 20)) }
        .unwrap();
    let chained = kernel(&mut graph, &[]);
    graph.add_edges(&[Edge::new(work, chained).kind(EdgeKind::Programmatic)]).unwrap();
    let child = graph.child(chained, &mut step).unwrap();
    graph.set_label(child, "one step").unwrap();
    let goes_on = graph.condition(Some(1)).unwrap();
    let repeat = graph.while_loop(chained, goes_on).unwrap();
    graph.set_label(repeat, "until it converges").unwrap();
    let body = graph.body(repeat, 0).unwrap();
    let sweep = kernel(&mut graph, &[]);
    graph.remove(sweep).unwrap();
    let sweep = graph.copy(body, &mut words, &other).unwrap();
    let picks = graph.condition(Some(0)).unwrap();
    let choose = graph.if_else(sweep, picks).unwrap();
    let then = graph.body(choose, 0).unwrap();
    graph.fill(then, &mut words, 3).unwrap();
    let record = graph.record(&[child, repeat], &event).unwrap();
    let write = BatchOperation::write(words.view_mut(..1).unwrap(), 1).unwrap();
    let batch = graph.batch(repeat, &[write]).unwrap();
    let down = graph.copy_to_shared(&[record, batch], &host, &words).unwrap();
    graph.wait(down, &event).unwrap();
    graph
}

#[test]
fn a_drawing_shows_every_node_with_what_is_inside_of_it() {
    run(|t| {
        let mut graph = of_everything(t);
        let svg = graph.to_svg().unwrap();
        keep("everything.svg", &svg);
        let elements = elements(&svg);
        // One for each node, and the document's.
        assert_eq!(count(&elements, "title"), graph.len() + 1);
        for text in [
            "prepare &lt;input&gt; &amp; &quot;go&quot;",
            "until it converges",
            "one step",
            "copy to the device",
            "64×2 blocks of 256",
            ">fill<",
            "4 MiB",
            "if, else",
            "then",
            "again and again",
            ">empty<",
            "stroke-dasharray=\"5 3\"",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg, graph.to_svg().unwrap(), "the same graph is drawn the same");
    });
}

#[test]
fn graphviz_is_told_every_node_and_edge_with_clusters_for_what_is_inside() {
    run(|t| {
        let mut graph = of_everything(t);
        let dot = graph.to_dot().unwrap();
        keep("everything.dot", &dot);
        let lines: Vec<&str> = dot.lines().map(str::trim).collect();
        let nodes =
            lines.iter().filter(|line| line.contains("[label=\"") && line.contains("tooltip"));
        assert_eq!(nodes.count(), graph.len());
        let edges = lines.iter().filter(|l| l.contains(" -> ") && !l.contains("lhead"));
        assert_eq!(edges.count(), graph.edges().unwrap().len());
        assert_eq!(dot.matches('{').count(), dot.matches('}').count());
        // Three nodes with something inside, of four graphs.
        assert_eq!(dot.matches("subgraph cluster_").count(), 3 + 4);
        assert!(dot.contains("prepare <input> & \\\"go\\\""), "{dot}");
    });
}

#[test]
fn two_hundred_nodes_make_a_picture_of_a_size_that_can_be_read() {
    run(|t| {
        let nop = t.kernels().kernel("nop").unwrap();
        let config = LaunchConfig::for_len(1000);
        let mut graph = graph(t);
        // SAFETY: the kernel takes nothing and does nothing.
        let mut kernel = |after: &[Node]| unsafe { graph.kernel(after, &nop, config, ()) }.unwrap();
        // Stages that fork and join, with edges over some of them.
        let mut stage = vec![kernel(&[])];
        let mut first = stage.clone();
        let mut all = 1;
        let mut width = 1;
        while all < 200 {
            width = (width * 7 + 3) % 9 + 1;
            let made = width.min(200 - all);
            stage = (0..made)
                .map(|nth| {
                    let mut after =
                        vec![stage[nth % stage.len()], stage[(nth * 3 + 1) % stage.len()]];
                    if nth == 0 && all % 4 == 0 {
                        after.push(first[0]);
                    }
                    after.sort_unstable();
                    after.dedup();
                    kernel(&after)
                })
                .collect();
            if all % 5 == 0 {
                first.clone_from(&stage);
            }
            all += made;
        }
        assert_eq!(graph.len(), 200);
        let svg = graph.to_svg().unwrap();
        keep("two_hundred.svg", &svg);
        assert_eq!(count(&elements(&svg), "title"), 201);
        let number = |name: &str| -> f64 {
            let from = svg.find(name).unwrap() + name.len();
            svg[from..].split('"').next().unwrap().parse().unwrap()
        };
        let (width, height) = (number(" width=\""), number(" height=\""));
        assert!(width < 2500.0 && height < 6000.0, "{width} by {height}");
    });
}

#[test]
fn a_fan_of_two_hundred_is_no_strip() {
    run(|t| {
        let mut graph = graph(t);
        let begin = graph.host(&[], || {}).unwrap();
        let middle: Vec<Node> = (0..198).map(|_| graph.host(begin, || {}).unwrap()).collect();
        graph.host(&middle, || {}).unwrap();
        let svg = graph.to_svg().unwrap();
        keep("fan.svg", &svg);
        let width: f64 = {
            let from = svg.find(" width=\"").unwrap() + 8;
            svg[from..].split('"').next().unwrap().parse().unwrap()
        };
        assert!(width < 4000.0, "{width}");
        elements(&svg);
    });
}

#[test]
fn an_empty_graph_and_lone_nodes_are_drawn_too() {
    run(|t| {
        let mut graph = graph(t);
        elements(&graph.to_svg().unwrap());
        for _ in 0..40 {
            graph.empty(&[]).unwrap();
            graph.host(&[], || {}).unwrap();
        }
        let svg = graph.to_svg().unwrap();
        keep("lone.svg", &svg);
        elements(&svg);
    });
}
