//! Copies, fills and memory operations of an executable that are changed, and nodes inside of others.

use super::*;
use crate::support::taken_back;
use cuhold_graph::{BatchOperation, SharedHost};
use cuhold_memory::HostBuffer;

fn words(stream: &Stream, words: &[u32]) -> Buffer<u32> {
    Buffer::from_slice(stream, words).unwrap()
}

#[test]
fn a_fill_is_given_another_value_and_other_memory() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let (mut one, mut other) = (words(&stream, &[0; 4]), words(&stream, &[0; 4]));
        let mut graph = graph_of(t);
        let node = graph.fill(&[], &mut one, 1).unwrap();
        let mut exec = graph.instantiate().unwrap();
        exec.set_fill(&graph, node, &mut other, 2).unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!((one.to_vec().unwrap(), other.to_vec().unwrap()), (vec![0; 4], vec![2; 4]));
        let error = exec.set_copy(&graph, node, &mut one, &other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
    });
}

#[test]
fn a_copy_is_given_other_ends_and_keeps_what_launches_read() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let pool = Pool::current_of(t.device()).unwrap();
        let mut to = words(&stream, &[0; 3]);
        let (first, second) = (words(&stream, &[1, 2, 3]), words(&stream, &[4, 5, 6]));
        let mut graph = graph_of(t);
        let node = graph.copy(&[], &mut to, &first).unwrap();
        let mut exec = graph.instantiate().unwrap();
        exec.set_copy(&graph, node, &mut to, &second).unwrap();
        exec.launch(&stream).unwrap();
        let used = pool.used_bytes().unwrap();
        exec.set_copy(&graph, node, &mut to, &first).unwrap();
        drop(second);
        // The launch reads it.
        t.becomes(|| pool.used_bytes().unwrap(), used);
        assert_eq!(to.to_vec().unwrap(), [4, 5, 6]);
        exec.launch(&stream).unwrap();
        assert_eq!(to.to_vec().unwrap(), [1, 2, 3]);
        drop((exec, graph, to, first));
        t.settle();
    });
}

#[test]
fn copies_from_and_to_the_host_are_given_other_host_memory() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let shared = || SharedHost::new(HostBuffer::<u32>::zeroed(t.context(), 2).unwrap());
        let (mut one, mut two) = (words(&stream, &[0; 2]), words(&stream, &[0; 2]));
        let (input, output) = (shared(), shared());
        let mut graph = graph_of(t);
        let owned = graph.copy_from_host(&[], &mut one, vec![1, 2]).unwrap();
        let from = graph.copy_from_shared(&[], &mut two, &shared()).unwrap();
        let back = graph.copy_to_shared(&[owned, from], &shared(), &one).unwrap();
        let mut exec = graph.instantiate().unwrap();
        exec.set_copy_from_host(&graph, owned, &mut one, vec![3, 4]).unwrap();
        exec.set_copy_from_shared(&graph, from, &mut two, &input).unwrap();
        exec.set_copy_to_shared(&graph, back, &output, &two).unwrap();
        // SAFETY: no launch was made.
        unsafe { input.copy_from_slice(&[5, 6]) }.unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!((one.to_vec().unwrap(), two.to_vec().unwrap()), (vec![3, 4], vec![5, 6]));
        // SAFETY: the launch is done.
        assert_eq!(unsafe { output.to_vec() }, [5, 6]);
        stream.synchronize().unwrap();
        drop((exec, graph));
        assert_eq!(taken_back(t, input)[..], [5, 6]);
        assert_eq!(taken_back(t, output)[..], [5, 6]);
    });
}

#[test]
fn memory_operations_are_given_other_values() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let mut word = words(&stream, &[0]);
        let mut graph = graph_of(t);
        let write =
            |word: &mut Buffer<u32>, value| BatchOperation::write(word.as_view_mut(), value);
        let first = write(&mut word, 1).unwrap();
        let node = graph.batch(&[], &[first]).unwrap();
        let mut exec = graph.instantiate().unwrap();
        let second = write(&mut word, 2).unwrap();
        exec.set_batch(&graph, node, &[second]).unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(word.to_vec().unwrap(), [2]);
        assert_eq!(exec.set_batch(&graph, node, &[]).unwrap_err().kind(), ErrorKind::Argument);
    });
}

#[test]
fn a_node_in_a_conditional_body_and_one_in_a_child_are_changed_like_others() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let (mut one, mut two) = (words(&stream, &[0]), words(&stream, &[0]));
        let (mut graph, mut child) = (graph_of(t), graph_of(t));
        child.fill(&[], &mut one, 1).unwrap();
        let node = graph.child(&[], &mut child).unwrap();
        let inner = graph.body(node, 0).unwrap();
        let inside = graph.nodes_in(inner).unwrap()[0];
        let condition = graph.condition(Some(1)).unwrap();
        let branch = graph.if_then(&[], condition).unwrap();
        let body = graph.body(branch, 0).unwrap();
        let conditional = graph.fill(body, &mut two, 1).unwrap();
        let mut exec = match graph.instantiate() {
            Ok(exec) => exec,
            Err(error) => return t.skip(&error.to_string()),
        };
        exec.set_fill(&graph, inside, &mut one, 7).unwrap();
        exec.set_fill(&graph, conditional, &mut two, 8).unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!((one.to_vec().unwrap(), two.to_vec().unwrap()), (vec![7], vec![8]));
    });
}
