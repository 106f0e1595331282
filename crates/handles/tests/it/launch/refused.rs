//! What is refused before a launch, in which words: arguments, shapes, names, images.

use super::ONE;
use cuhold_driver_sys::CUresult;
use cuhold_handles::{
    Error, ErrorKind, Function, Image, Kernel, KernelArgs, LaunchConfig, Library, Module, Stream,
};
use cuhold_testkit::{Kit, PTX, run};
use std::ffi::CString;

/// Refused as an argument in these words, with no driver call made.
#[track_caller]
fn is_refused<T>(t: &Kit, work: impl FnOnce() -> Result<T, Error>, text: &str) {
    let (result, calls) = t.calls(work);
    let error = result.err().unwrap_or_else(|| panic!("not refused, wanted: {text}"));
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Argument, text));
    assert_eq!(calls, [""; 0]);
}

/// The kernel and the function of this name, both refusing these arguments.
struct Target<'t> {
    t: &'t Kit,
    kernel: Kernel,
    function: Function,
    stream: Stream,
}

impl<'t> Target<'t> {
    fn new(t: &'t Kit, name: &str) -> Self {
        Self {
            t,
            kernel: t.kernels().kernel(name).unwrap(),
            function: Module::load(t.context(), PTX).unwrap().function(name).unwrap(),
            stream: t.device().new_stream().unwrap(),
        }
    }

    #[track_caller]
    fn refuses<A: KernelArgs + Copy>(&self, config: LaunchConfig, args: A, text: &str) {
        // SAFETY: refused before the kernel runs.
        is_refused(self.t, || unsafe { self.kernel.launch(&self.stream, config, args) }, text);
        // SAFETY: as above.
        is_refused(self.t, || unsafe { self.function.launch(&self.stream, config, args) }, text);
    }
}

#[test]
fn a_wrong_number_of_arguments_is_refused() {
    run(|t| {
        let fill = Target::new(t, "fill");
        let text =
            |given| format!("args: the kernel has 3 parameters, {given} arguments were given");
        fill.refuses(ONE, (), &text(0));
        fill.refuses(ONE, (0_u64,), &text(1));
        fill.refuses(ONE, (0_u64, 1_u32), &text(2));
        fill.refuses(ONE, (0_u64, 1_u32, 1_u32, 1_u32), &text(4));
        let text = "args: the kernel has 0 parameters, 1 arguments were given";
        Target::new(t, "nop").refuses(ONE, (1_u32,), text);
    });
}

#[test]
fn an_argument_of_the_wrong_size_is_refused_by_its_number() {
    run(|t| {
        let fill = Target::new(t, "fill");
        let text = |index, given, wanted| {
            format!(
                "args: argument {index} has {given} bytes, the kernel's parameter {index} has {wanted}"
            )
        };
        fill.refuses(ONE, (0_u32, 1_u32, 1_u32), &text(0, 4, 8));
        fill.refuses(ONE, (0_u64, 1_u64, 1_u32), &text(1, 8, 4));
        fill.refuses(ONE, (0_u64, 1_u32, 1_u16), &text(2, 2, 4));
        fill.refuses(ONE, (0_u64, [1_u32; 3], 1_u32), &text(1, 12, 4));
        // Of several, the first one.
        fill.refuses(ONE, (0_u8, 1_u8, 1_u8), &text(0, 1, 8));
    });
}

#[test]
fn a_dimension_of_zero_is_refused_wherever_it_stands() {
    run(|t| {
        let nop = Target::new(t, "nop");
        for which in 0..9 {
            let mut sizes = [[1; 3]; 3];
            sizes.as_flattened_mut()[which] = 0;
            let [grid, block, cluster] = sizes;
            let config = LaunchConfig::new(grid, block).cluster(cluster);
            let text = format!(
                "config: a dimension is zero in grid {grid:?}, block {block:?}, cluster {cluster:?}"
            );
            nop.refuses(config, (), &text);
        }
        let text =
            "config: a dimension is zero in grid [0, 1, 1], block [1, 1, 1], cluster [1, 1, 1]";
        nop.refuses(LaunchConfig::new([0, 1, 1], [1; 3]), (), text);
    });
}

#[test]
fn a_shape_beyond_the_device_s_limits_is_the_driver_s_to_refuse() {
    run(|t| {
        let nop = Target::new(t, "nop");
        for config in [
            LaunchConfig::new([1; 3], [2048, 1, 1]),
            LaunchConfig::new([1; 3], [1, 1, 65]),
            LaunchConfig::new([1, 65_536, 1], [1; 3]),
            LaunchConfig::new([1; 3], [1; 3]).shared_bytes(1 << 30),
        ] {
            // SAFETY: the kernel has no parameters and touches no memory.
            let launch = || unsafe { nop.kernel.launch(&nop.stream, config, ()) };
            let (result, calls) = t.calls(launch);
            assert_eq!(calls, ["cuLaunchKernelEx"]);
            assert_eq!(
                result.unwrap_err().to_string(),
                "cuLaunchKernelEx failed with CUDA_ERROR_INVALID_VALUE (1): an argument is outside its range, or the \
                 handle isn't known; the grid, the block or the shared memory is outside the device's limits, or \
                 parameters are missing; compare the launch with the device's attributes and with the kernel's \
                 parameters"
            );
        }
        nop.stream.synchronize().unwrap();
    });
}

#[test]
fn a_name_with_a_nul_byte_is_refused() {
    run(|t| {
        let (library, module) = (t.kernels(), Module::load(t.context(), PTX).unwrap());
        let text = "name: nul byte found in provided data at position: 2";
        is_refused(t, || library.kernel("no\0p"), text);
        is_refused(t, || module.function("no\0p"), text);
    });
}

#[test]
fn a_name_that_is_not_there_is_told_with_its_cause() {
    run(|t| {
        let error = t.kernels().kernel("absent").unwrap_err();
        assert!(error.is(CUresult::NOT_FOUND));
        assert_eq!(
            error.to_string(),
            "cuLibraryGetKernel failed with CUDA_ERROR_NOT_FOUND (500): the name wasn't found; the library has no \
             kernel of this name; C++ names are mangled unless declared extern \"C\"; declare the kernel extern \"C\", \
             or ask for the mangled name"
        );
        let error = Module::load(t.context(), PTX).unwrap().function("absent").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cuModuleGetFunction failed with CUDA_ERROR_NOT_FOUND (500): the name wasn't found; the module has no \
             kernel of this name; C++ names are mangled unless declared extern \"C\"; declare the kernel extern \"C\", \
             or ask for the mangled name"
        );
    });
}

#[test]
fn an_image_that_cannot_be_one_is_refused() {
    run(|t| {
        let inside = "image: PTX text has a NUL byte inside";
        let without = "image: neither a cubin nor a fatbin, and PTX bytes must end with a NUL byte";
        let (text, bytes) = (format!("{PTX}\0"), PTX.as_bytes());
        let images: [(&dyn Loads, &str); 5] = [
            (&"no\0pe".to_owned(), inside),
            (&text, inside),
            (&bytes.to_vec(), without),
            (&Vec::<u8>::new(), without),
            (&b"\x7fEL".to_vec(), without),
        ];
        for (image, text) in images {
            is_refused(t, || image.library(t), text);
            is_refused(t, || image.module(t), text);
        }
        is_refused(t, || t.device().load("a\0b"), inside);
        is_refused(t, || t.device().load(bytes), without);
    });
}

#[test]
fn ptx_is_loaded_from_every_kind_of_text() {
    run(|t| {
        let text = CString::new(PTX).unwrap();
        let bytes = text.as_bytes_with_nul().to_vec();
        let images: [&dyn Loads; 2] = [&PTX.to_owned(), &bytes];
        for image in images {
            assert_eq!(image.library(t).unwrap().kernel("fill").unwrap().name(), "fill");
            assert_eq!(image.module(t).unwrap().function("fill").unwrap().name(), "fill");
        }
        t.device().load(PTX).unwrap();
        t.device().load(text.as_c_str()).unwrap();
        t.device().load(bytes.as_slice()).unwrap();
    });
}

/// Something that code is loaded from, both ways.
trait Loads {
    fn library(&self, t: &Kit) -> Result<Library, Error>;
    fn module(&self, t: &Kit) -> Result<Module, Error>;
}

impl<I: Image> Loads for I {
    fn library(&self, t: &Kit) -> Result<Library, Error> {
        t.device().load(self)
    }
    fn module(&self, t: &Kit) -> Result<Module, Error> {
        Module::load(t.context(), self)
    }
}
