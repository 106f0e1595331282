//! Nodes of an executable that are changed, left out, and put back.

use super::*;

#[test]
fn a_changed_node_does_the_new_from_the_next_launch_on() {
    run(|t| {
        let (graph, node, mut exec, stream) = of_one_host_node(t);
        let (first, second) = (token(), token());
        exec.set_host(&graph, node, counting(&first)).unwrap();
        exec.launch(&stream).unwrap();
        exec.set_host(&graph, node, counting(&second)).unwrap();
        exec.launch(&stream).unwrap();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!((calls(&first), calls(&second)), (1, 2));
        drop((exec, graph));
        t.becomes(|| (holders(&first), holders(&second)), (0, 0));
    });
}

#[test]
fn a_change_that_is_refused_before_the_driver_is_asked_keeps_nothing_of_it() {
    run(|t| {
        let (graph, node, mut exec, _) = of_one_host_node(t);
        let (mut other, foreign) = (graph_of(t), token());
        let strange = other.host(&[], || {}).unwrap();
        let event = t.context().new_event().unwrap();
        let ((), made) = t.calls(|| {
            for error in [
                exec.set_host(&graph, strange, counting(&foreign)).unwrap_err(),
                exec.set_host(&other, strange, counting(&foreign)).unwrap_err(),
                exec.set_record(&graph, node, &event).unwrap_err(),
                exec.set_enabled(&graph, node, false).unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
            }
        });
        assert_eq!(made, [""; 0]);
        assert_eq!(holders(&foreign), 0);
        let error = exec.set_record(&graph, node, &event).unwrap_err().to_string();
        assert!(error.contains("node 0: it is of the kind Host, not Record"), "{error}");
    });
}

#[test]
fn a_node_that_was_removed_is_not_changed_in_an_executable() {
    run(|t| {
        let (mut graph, node, mut exec, stream) = of_one_host_node(t);
        graph.remove(node).unwrap();
        assert_eq!(exec.set_host(&graph, node, || {}).unwrap_err().kind(), ErrorKind::Argument);
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
    });
}

#[test]
fn a_kernel_node_is_given_other_arguments_while_a_launch_runs() {
    run(|t| {
        let (stream, pool) =
            (t.device().new_stream().unwrap(), Pool::current_of(t.device()).unwrap());
        let fill = t.device().load(PTX).unwrap().kernel("fill").unwrap();
        let before = pool.used_bytes().unwrap();
        let mut graph = graph_of(t);
        let config = LaunchConfig::for_len(64);
        let first = Buffer::<u32>::zeroed(&stream, 64).unwrap();
        // SAFETY: *layout*: a pointer and two words, as `fill` takes; *bounds*: it writes 64 words.
        let node = unsafe { graph.kernel(&[], &fill, config, (&first, 1_u32, 64_u32)) }.unwrap();
        let mut exec = graph.instantiate().unwrap();
        let mut last = first;
        for round in 2..20_u32 {
            exec.launch(&stream).unwrap();
            let next = Buffer::<u32>::zeroed(&stream, 64).unwrap();
            // SAFETY: as above.
            unsafe { exec.set_kernel(&graph, node, &fill, config, (&next, round, 64_u32)) }
                .unwrap();
            // The one before may be written yet: the executable keeps it.
            last = next;
        }
        exec.launch(&stream).unwrap();
        assert_eq!(last.to_vec().unwrap(), [19; 64]);
        stream.synchronize().unwrap();
        exec.drain().unwrap();
        assert_eq!(exec.retired(), 0);
        drop((exec, graph, last, fill));
        t.settle();
        stream.synchronize().unwrap();
        assert_eq!(pool.used_bytes().unwrap(), before);
    });
}

#[test]
fn launch_attributes_are_not_changed_with_a_node() {
    run(|t| {
        let nop = t.device().load(PTX).unwrap().kernel("nop").unwrap();
        let mut graph = graph_of(t);
        let config = LaunchConfig::for_len(1);
        // SAFETY: the kernel takes nothing and does nothing.
        let node = unsafe { graph.kernel(&[], &nop, config, ()) }.unwrap();
        let mut exec = graph.instantiate().unwrap();
        // SAFETY: as above.
        let error = unsafe { exec.set_kernel(&graph, node, &nop, config.cooperative(), ()) };
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Argument);
    });
}

#[test]
fn a_node_is_left_out_and_put_back() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let fill = t.device().load(PTX).unwrap().kernel("fill").unwrap();
        let mut graph = graph_of(t);
        let words = Buffer::<u32>::zeroed(&stream, 8).unwrap();
        let config = LaunchConfig::for_len(8);
        // SAFETY: *layout*: a pointer and two words, as `fill` takes; *bounds*: it writes 8 words.
        let node = unsafe { graph.kernel(&[], &fill, config, (&words, 7_u32, 8_u32)) }.unwrap();
        let mut exec = graph.instantiate().unwrap();
        assert!(exec.is_enabled(&graph, node).unwrap());
        exec.set_enabled(&graph, node, false).unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(words.to_vec().unwrap(), [0; 8]);
        assert!(!exec.is_enabled(&graph, node).unwrap());
        exec.set_enabled(&graph, node, true).unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(words.to_vec().unwrap(), [7; 8]);
    });
}

#[test]
fn a_record_and_a_wait_are_given_other_events() {
    run(|t| {
        let (stream, other) = (t.device().new_stream().unwrap(), t.device().new_stream().unwrap());
        let event = || t.context().new_event().unwrap();
        let mut graph = graph_of(t);
        let record = graph.record(&[], &event()).unwrap();
        let wait = graph.wait(&[record], &event()).unwrap();
        let mut exec = graph.instantiate().unwrap();
        let (recorded, awaited) = (event(), event());
        exec.set_record(&graph, record, &recorded).unwrap();
        exec.set_wait(&graph, wait, &awaited).unwrap();
        let open = gate(&other);
        other.record(&awaited).unwrap();
        exec.launch(&stream).unwrap();
        recorded.synchronize().unwrap();
        assert!(!stream.is_done().unwrap(), "the launch waits for the other stream");
        drop(open);
        stream.synchronize().unwrap();
        drop((exec, graph));
        t.settle();
    });
}

#[test]
fn a_child_is_replaced_and_what_the_new_one_uses_is_kept() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let (old, new) = (token(), token());
        let (mut first, mut second, mut parent) = (graph_of(t), graph_of(t), graph_of(t));
        first.host(&[], counting(&old)).unwrap();
        second.host(&[], counting(&new)).unwrap();
        let node = parent.child(&[], &mut first).unwrap();
        let mut exec = parent.instantiate().unwrap();
        exec.launch(&stream).unwrap();
        exec.set_child(&parent, node, &mut second).unwrap();
        drop((first, second));
        t.settle();
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!((calls(&old), calls(&new)), (1, 1));
        let mut larger = graph_of(t);
        larger.empty(&[]).unwrap();
        larger.empty(&[]).unwrap();
        assert!(exec.set_child(&parent, node, &mut larger).is_err());
        exec.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(calls(&new), 2);
        drop((exec, parent, larger));
        t.becomes(|| (holders(&old), holders(&new)), (0, 0));
    });
}
