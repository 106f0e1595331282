//! Buffers and views as what kernels work on.

use cuhold_handles::{ErrorKind, LaunchConfig};
use cuhold_memory::Buffer;
use cuhold_testkit::run;

#[test]
#[expect(unsafe_code, reason = "launches kernels")]
fn a_kernel_reads_and_writes_buffers_and_views() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let kernels = t.kernels();
        let (axpy, fill) = (kernels.kernel("axpy").unwrap(), kernels.kernel("fill").unwrap());
        let x = Buffer::from_slice(&stream, &[1.0_f32, 2.0, 3.0, 4.0]).unwrap();
        let mut y = Buffer::from_slice(&stream, &[10.0_f32; 4]).unwrap();
        let config = LaunchConfig::for_len(4);
        // SAFETY: the parameters are (f32, pointer, pointer, u32), and both buffers hold four floats of this stream.
        unsafe { axpy.launch(&stream, config, (2.0_f32, &x, &mut y, 4_u32)) }.unwrap();
        assert_eq!(y.to_vec().unwrap(), [12.0, 14.0, 16.0, 18.0]);
        let mut words = Buffer::<u32>::zeroed(&stream, 5).unwrap();
        let part = words.view_mut(1..4).unwrap();
        // SAFETY: the parameters are (pointer, u32, u32), and the view has three words of this stream.
        unsafe { fill.launch(&stream, config, (part, 7_u32, 3_u32)) }.unwrap();
        assert_eq!(words.to_vec().unwrap(), [0, 7, 7, 7, 0]);
    });
}

#[test]
#[expect(unsafe_code, reason = "launches a kernel")]
fn a_kernel_takes_no_buffer_of_another_driver() {
    run(|t| {
        let stream = t.device().new_stream().unwrap();
        let fill = t.kernels().kernel("fill").unwrap();
        let driver = t.driver().isolated();
        let other = cuhold_handles::Device::with_driver(&driver, 0).unwrap();
        let foreign = Buffer::<u32>::zeroed(&other.new_stream().unwrap(), 4).unwrap();
        let config = LaunchConfig::for_len(4);
        let (error, calls) = t.calls(|| {
            // SAFETY: refused before the driver is asked.
            unsafe { fill.launch(&stream, config, (&foreign, 7_u32, 4_u32)) }.unwrap_err()
        });
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(calls.is_empty() && error.to_string().contains("another driver"), "{error}");
        drop((foreign, other));
        driver.close().unwrap();
    });
}
