//! Our own loader and layers on the library, in a process that finds it as its driver.

use cuhold::{Buffer, CaptureMode, Device, Driver, EventOptions, capture};

use crate::place::{Program, is_program};

/// A program over all layers: each line of it goes through C.
fn program() {
    let driver = Driver::load().unwrap();
    assert_eq!(driver.device_count().unwrap(), 2);
    let device = Device::with_driver(&driver, 1).unwrap();
    let stream = device.new_stream().unwrap();

    let numbers: Vec<u32> = (0..1000).collect();
    let buffer = Buffer::from_slice(&stream, &numbers).unwrap();
    let (begin, end) = (
        device.new_event(EventOptions::timing()).unwrap(),
        device.new_event(EventOptions::timing()).unwrap(),
    );
    stream.record(&begin).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), numbers);
    stream.record(&end).unwrap();
    end.synchronize().unwrap();
    assert!(end.elapsed_ms_since(&begin).unwrap().is_some());

    let mut filled = Buffer::<u32>::zeroed(&stream, 4).unwrap();
    let (mut graph, ()) =
        capture(&stream, CaptureMode::ThreadLocal, |builder| builder.fill(&mut filled, 7)).unwrap();
    graph.instantiate().unwrap().launch(&stream).unwrap();
    stream.synchronize().unwrap();
    assert_eq!(filled.to_vec().unwrap(), [7; 4]);
}

#[test]
fn our_layers_run_on_it_through_the_loader() {
    const TEST: &str = "loaded::our_layers_run_on_it_through_the_loader";
    if is_program(TEST) {
        return program();
    }
    let said = Program::new(TEST).with("CUHOLD_SIM_DEVICES", "2").run();
    assert!(!said.contains("cuhold-libcuda-sim"), "{said}");
}
