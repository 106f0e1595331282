//! Launches: what kernels receive, where they run, which calls are made.

#![expect(unsafe_code, reason = "launches kernels, and allocates what they write")]

mod attributes;
mod refused;

use bytemuck::{NoUninit, Pod, Zeroable};
use cuhold_driver_sys::ffi::CUdeviceptr;
use cuhold_handles::{AsStream, Function, Kernel, LaunchConfig, Module, PerThreadStream};
use cuhold_testkit::{Kit, PTX, run};
use std::fmt::Write as _;

const ONE: LaunchConfig = LaunchConfig::new([1; 3], [1; 3]);

/// Puts `values` into device memory, lets `work` use them, and answers what they are then.
fn on_device<T: Pod>(t: &Kit, values: &[T], work: impl FnOnce(CUdeviceptr)) -> Vec<T> {
    let (calls, bytes) = (t.driver().calls(), size_of_val(values));
    let mut address: CUdeviceptr = 0;
    let made = t.context().with_current(|| {
        // SAFETY: *pointers*: a live local.
        unsafe { calls.cuMemAlloc_v2(&raw mut address, bytes) }?;
        // SAFETY: *pointers*: as many bytes are there as were allocated.
        unsafe { calls.cuMemcpyHtoD_v2(address, values.as_ptr().cast(), bytes) }
    });
    made.unwrap().unwrap();
    work(address);
    t.device().synchronize().unwrap();
    let mut after = vec![T::zeroed(); values.len()];
    let read = t.context().with_current(|| {
        // SAFETY: *pointers*: as many bytes are there as were allocated.
        unsafe { calls.cuMemcpyDtoH_v2(after.as_mut_ptr().cast(), address, bytes) }?;
        // SAFETY: *handles*: allocated above; the device is done with it.
        unsafe { calls.cuMemFree_v2(address) }
    });
    read.unwrap().unwrap();
    after
}

/// A kernel of PTX text of a test's own.
fn kernel_of(t: &Kit, body: &str, name: &str) -> Kernel {
    let ptx = format!(".version 7.0\n.target sm_50\n.address_size 64\n{body}");
    t.device().load(&ptx).unwrap().kernel(name).unwrap()
}

#[test]
fn a_kernel_fills_exactly_the_words_that_it_is_told_to() {
    run(|t| {
        let (fill, stream) =
            (t.kernels().kernel("fill").unwrap(), t.device().new_stream().unwrap());
        for len in [1, 255, 256, 257, 1000_u32] {
            let words = on_device(t, &[7_u32; 1024], |address| {
                // SAFETY: pointer, value and length, within 1024 words that outlive the launch.
                unsafe { fill.launch(&stream, LaunchConfig::for_len(len), (address, 9_u32, len)) }
                    .unwrap();
            });
            let count = |value| words.iter().filter(|word| **word == value).count();
            let filled = usize::try_from(len).unwrap();
            assert!(words[..filled].iter().all(|word| *word == 9), "{len}");
            assert_eq!((count(9), count(7)), (filled, 1024 - filled));
        }
    });
}

#[test]
fn a_kernel_reads_and_writes_what_several_arguments_lead_to() {
    run(|t| {
        let (axpy, stream) =
            (t.kernels().kernel("axpy").unwrap(), t.device().new_stream().unwrap());
        let both: Vec<f32> = (0_u16..200).map(f32::from).collect();
        let after = on_device(t, &both, |x| {
            // The second hundred.
            let y = x + 400;
            // SAFETY: a, x, y and length, within two hundred floats that outlive the launch.
            unsafe { axpy.launch(&stream, LaunchConfig::for_len(100), (0.5_f32, x, y, 100_u32)) }
                .unwrap();
        });
        for (index, (before, after)) in both.iter().zip(&after).enumerate() {
            let added = if index < 100 { 0.0 } else { 0.5 * both[index - 100] };
            assert!((after - before - added).abs() < 1e-3, "{index}: {before} became {after}");
        }
    });
}

/// A struct of a user's, as C has it.
#[derive(Clone, Copy, NoUninit)]
#[repr(C)]
struct Sample {
    count: u32,
    weight: f32,
    base: u64,
}

const TAKE_STRUCT: &str = "
.visible .entry take_struct(.param .u64 out, .param .align 8 .b8 sample[16])
{
    .reg .f32 %f<2>;
    .reg .b32 %r<2>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [sample];
    ld.param.f32 %f1, [sample+4];
    ld.param.u64 %rd2, [sample+8];
    cvta.to.global.u64 %rd3, %rd1;
    st.global.u32 [%rd3], %r1;
    st.global.f32 [%rd3+4], %f1;
    st.global.u64 [%rd3+8], %rd2;
    ret;
}";

#[test]
fn a_user_s_struct_is_an_argument_by_value() {
    run(|t| {
        if let Some(sim) = t.sim() {
            sim.register_kernel("take_struct", |launch| {
                launch.write(launch.param(0)?, launch.param::<[u64; 2]>(1)?)
            });
        }
        let kernel = kernel_of(t, TAKE_STRUCT, "take_struct");
        let sizes: Vec<_> = kernel
            .parameters()
            .known()
            .unwrap()
            .iter()
            .map(|p| (p.offset_bytes, p.size_bytes))
            .collect();
        assert_eq!(sizes, [(0, 8), (8, 16)]);
        let stream = t.device().new_stream().unwrap();
        let sample = Sample { count: 3, weight: 1.5, base: 1 << 40 };
        let after = on_device(t, &[0_u64; 2], |out| {
            // SAFETY: a pointer to sixteen bytes that outlive the launch, and the struct that the kernel declares.
            unsafe { kernel.launch(&stream, ONE, (out, sample)) }.unwrap();
        });
        let bytes: &[u8] = bytemuck::cast_slice(&after);
        assert_eq!(bytes, bytemuck::bytes_of(&sample));
    });
}

/// Fifteen words of fifteen sizes would need as many types: the four that PTX has take turns.
const WORDS: [(&str, &str); 4] = [("u8", "u16"), ("u16", "u16"), ("u32", "u32"), ("u64", "u64")];

/// A kernel that widens each of fifteen parameters and stores it at its number.
fn sixteen_ptx() -> String {
    let (mut parameters, mut body) = (String::new(), String::new());
    for index in 1..16 {
        let (memory, register) = WORDS[index % 4];
        write!(parameters, ", .param .{memory} p{index}").unwrap();
        let (name, at) = (format!("%{register}_{index}"), (index - 1) * 8);
        writeln!(body, ".reg .{register} {name};").unwrap();
        writeln!(body, "ld.param.{memory} {name}, [p{index}];").unwrap();
        if register == "u64" {
            writeln!(body, "st.global.u64 [%rd2+{at}], {name};").unwrap();
        } else {
            writeln!(body, "cvt.u64.{register} %rd3, {name};").unwrap();
            writeln!(body, "st.global.u64 [%rd2+{at}], %rd3;").unwrap();
        }
    }
    format!(
        ".visible .entry sixteen(.param .u64 out{parameters})\n{{\n.reg .b64 %rd<4>;\n\
         ld.param.u64 %rd1, [out];\ncvta.to.global.u64 %rd2, %rd1;\n{body}ret;\n}}"
    )
}

#[test]
fn sixteen_arguments_of_mixed_sizes_arrive_in_order() {
    run(|t| {
        if let Some(sim) = t.sim() {
            sim.register_kernel("sixteen", |launch| {
                let out: CUdeviceptr = launch.param(0)?;
                for (index, at) in (1..16).zip((out..).step_by(8)) {
                    let word = match index % 4 {
                        0 => launch.param::<u8>(index)?.into(),
                        1 => launch.param::<u16>(index)?.into(),
                        2 => launch.param::<u32>(index)?.into(),
                        _ => launch.param::<u64>(index)?,
                    };
                    launch.write(at, word)?;
                }
                Ok(())
            });
        }
        let (kernel, stream) =
            (kernel_of(t, &sixteen_ptx(), "sixteen"), t.device().new_stream().unwrap());
        let after = on_device(t, &[0_u64; 15], |out| {
            let args = (
                out, 1_u16, 2_u32, 3_u64, 4_u8, 5_u16, 6_u32, 7_u64, 8_u8, 9_u16, 10_u32, 11_u64,
                12_u8, 13_u16, 14_u32, 15_u64,
            );
            // SAFETY: a pointer to fifteen words that outlive the launch, then what the kernel declares.
            unsafe { kernel.launch(&stream, ONE, args) }.unwrap();
        });
        assert_eq!(after, (1..16).collect::<Vec<u64>>());
    });
}

/// Three floats, as C passes them in a struct.
#[derive(Clone, Copy, PartialEq, Debug, Pod, Zeroable)]
#[repr(C)]
struct Vector {
    xyz: [f32; 3],
}

#[test]
fn an_array_and_a_struct_of_the_same_bytes_are_the_same_argument() {
    const BODY: &str = "
.visible .entry first(.param .u64 out, .param .align 4 .b8 v[12])
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [v+8];
    cvta.to.global.u64 %rd2, %rd1;
    st.global.u32 [%rd2], %r1;
    ret;
}";
    run(|t| {
        if let Some(sim) = t.sim() {
            sim.register_kernel("first", |launch| {
                launch.write(launch.param(0)?, launch.param::<[f32; 3]>(1)?[2])
            });
        }
        let (kernel, stream) = (kernel_of(t, BODY, "first"), t.device().new_stream().unwrap());
        let xyz = [1.0, 2.0, 3.0_f32];
        let array = on_device(t, &[0.0_f32], |out| {
            // SAFETY: a pointer to a float that outlives the launch, and twelve bytes.
            unsafe { kernel.launch(&stream, ONE, (out, xyz)) }.unwrap();
        });
        let vector = on_device(t, &[0.0_f32], |out| {
            // SAFETY: as above.
            unsafe { kernel.launch(&stream, ONE, (out, Vector { xyz })) }.unwrap();
        });
        assert_eq!((array, vector), (vec![3.0], vec![3.0]));
    });
}

#[test]
fn arguments_are_copied_during_the_call() {
    run(|t| {
        let (fill, stream) =
            (t.kernels().kernel("fill").unwrap(), t.device().new_stream().unwrap());
        let words = on_device(t, &[0_u32; 4], |address| {
            for (at, value) in [(0, 1_u32), (4, 2), (8, 3), (12, 4)] {
                let mut args = (address + at, value, 1_u32);
                // SAFETY: pointer, value and length, within four words that outlive the launch.
                unsafe { fill.launch(&stream, ONE, args) }.unwrap();
                args.1 = 99;
                assert_eq!(args.1, 99);
            }
        });
        assert_eq!(words, [1, 2, 3, 4]);
    });
}

fn on_kernel(kernel: &Kernel, stream: &impl AsStream) {
    // SAFETY: the tests' kernel has no parameters and touches no memory.
    unsafe { kernel.launch(stream, ONE, ()) }.unwrap();
}

fn on_function(function: &Function, stream: &impl AsStream) {
    // SAFETY: as above.
    unsafe { function.launch(stream, ONE, ()) }.unwrap();
}

/// A launch, the calls that it makes with no context current, and how many with its own current.
type LaunchOn<'a> = (&'a str, &'a dyn Fn(), &'a [&'a str], usize);

#[test]
fn a_launch_makes_the_calls_that_its_stream_needs() {
    const SCOPED: [&str; 4] =
        ["cuCtxGetCurrent", "cuCtxPushCurrent", "cuLaunchKernelEx", "cuCtxPopCurrent"];
    run(|t| {
        let kernel = t.kernels().kernel("nop").unwrap();
        let module = Module::load(t.context(), PTX).unwrap();
        let function = module.function("nop").unwrap();
        let (created, legacy) = (t.device().new_stream().unwrap(), t.device().legacy_stream());
        let own = PerThreadStream::new(t.context());
        let launches: [LaunchOn<'_>; 6] = [
            ("kernel, created", &|| on_kernel(&kernel, &created), &SCOPED[2..3], 1),
            ("kernel, legacy", &|| on_kernel(&kernel, &legacy), &SCOPED, 2),
            ("kernel, own", &|| on_kernel(&kernel, &own), &SCOPED, 2),
            ("function, created", &|| on_function(&function, &created), &SCOPED[2..3], 1),
            ("function, legacy", &|| on_function(&function, &legacy), &SCOPED, 2),
            ("function, own", &|| on_function(&function, &own), &SCOPED, 2),
        ];
        for (what, launch, with_none, with_own) in launches {
            assert_eq!(t.calls(launch).1, with_none, "{what}, no context current");
            let ((), calls) = t.context().with_current(|| t.calls(launch)).unwrap();
            assert_eq!(calls.len(), with_own, "{what}, its own context current: {calls:?}");
            assert_eq!(calls.last(), Some(&"cuLaunchKernelEx"), "{what}");
        }
        t.device().synchronize().unwrap();
    });
}

#[test]
fn a_module_s_function_writes_what_a_library_s_kernel_does() {
    run(|t| {
        let module = Module::load(t.context(), PTX).unwrap();
        let (function, stream) =
            (module.function("fill").unwrap(), t.device().new_stream().unwrap());
        let words = on_device(t, &[0_u32; 300], |address| {
            // SAFETY: pointer, value and length, within three hundred words that outlive the launch.
            unsafe {
                function.launch(&stream, LaunchConfig::for_len(300), (address, 5_u32, 300_u32))
            }
            .unwrap();
        });
        assert!(words.iter().all(|word| *word == 5));
        assert_eq!((function.name(), function.module()), ("fill", &module));
    });
}

#[test]
fn every_dimension_of_the_grid_and_the_block_reaches_the_device() {
    run(|t| {
        let (fill, stream) =
            (t.kernels().kernel("fill").unwrap(), t.device().new_stream().unwrap());
        // The kernel looks at the first dimension alone, so the others write the same words again.
        let config = LaunchConfig::new([3, 2, 2], [4, 2, 2]);
        let words = on_device(t, &[0_u32; 16], |address| {
            // SAFETY: pointer, value and length, within sixteen words that outlive the launch.
            unsafe { fill.launch(&stream, config, (address, 1_u32, 16_u32)) }.unwrap();
        });
        assert_eq!(words.iter().sum::<u32>(), 12);
        assert!(words[..12].iter().all(|word| *word == 1));
    });
}
