//! What is read from PTX, and what is refused.

use super::*;

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

fn read_with_header(rest: &str) -> Result<Image, CUresult> {
    read(&format!("{HEADER}{rest}"), 90)
}

fn kernel(rest: &str) -> KernelInfo {
    read_with_header(rest).unwrap().kernels.remove(0)
}

fn offsets(kernel: &KernelInfo) -> Vec<(usize, usize)> {
    kernel.params.as_ref().unwrap().iter().map(|p| (p.offset, p.size)).collect()
}

#[test]
fn a_header_alone_is_an_empty_image() {
    let image = read_with_header("").unwrap();
    assert_eq!((image.ptx_version, image.architecture), (Some(80), 80));
    assert!(image.kernels.is_empty() && image.variables.is_empty());
    assert!(!image.exact_architecture);
    assert!(read(".version 8.0 .target sm_90a, debug", 90).unwrap().exact_architecture);
}

#[test]
fn only_a_text_that_begins_with_version_says_that_it_is_ptx() {
    assert!(is_ptx("// made by hand\n .version 8.0"));
    assert!(!is_ptx("garbage"));
    assert!(!is_ptx(""));
}

#[test]
fn parameters_have_the_offsets_that_their_types_ask_for() {
    let kernel = kernel(
        ".visible .entry axpy(
            .param .f32 a,
            .param .u64 .ptr .global .align 1 x,
            .param .u8 flag,
            .param .align 4 .b8 pair[6],
            .param .v2 .f32 both,
            .param .u64 y)
        { ret; }",
    );
    assert_eq!(kernel.name, "axpy");
    assert_eq!(offsets(&kernel), [(0, 4), (8, 8), (16, 1), (20, 6), (32, 8), (40, 8)]);
    assert_eq!(kernel.params_bytes(), 48);
}

#[test]
fn a_kernel_without_parameters_is_told_from_one_whose_parameters_are_unknown() {
    for text in [".entry f() { ret; }", ".entry f { ret; }"] {
        assert_eq!(kernel(text).params, Some(Vec::new()));
    }
}

#[test]
fn limits_and_static_memory_are_read() {
    let kernel = kernel(
        ".shared .align 4 .b8 outside[40];
        .shared .align 4 .b8 unused[4000];
        .extern .shared .align 16 .b8 dynamic[];
        .visible .entry f(.param .u64 p) .maxntid 128, 2, 1 .minnctapersm 2 .reqnctapercluster 2
        {
            .reg .pred %p<2>;
            .reg .b32 %r<30>;
            .reg .b64 %rd<9>;
            .shared .align 8 .f64 inside[3];
            .local .align 4 .b8 depot[12];
            .loc 1 7 3
            mov.u32 %r1, outside;
            mov.u64 %rd1, dynamic;
        $L_1:
            @!%p1 bra $L_1;
            st.global.v2.f32 [%rd1+8], {%f1, %f2};
            { ret; }
        }",
    );
    assert_eq!(kernel.block_threads_max, Some(256));
    assert_eq!(kernel.cluster, Some((2, 1, 1)));
    assert_eq!(kernel.static_shared_bytes, 64);
    assert_eq!(kernel.local_bytes, 12);
    assert_eq!(kernel.registers, 30 + 18);
}

#[test]
fn registers_that_are_declared_are_shared_by_a_compiler_unless_the_kernel_sets_a_limit() {
    let many = ".visible .entry f() { .reg .b32 %r<900>; ret; }";
    assert_eq!(kernel(many).registers, 64);
    let limited = ".visible .entry f() .maxnreg 128 { .reg .b32 %r<900>; ret; }";
    assert_eq!(kernel(limited).registers, 128);
}

#[test]
fn variables_have_a_size_and_what_they_start_with() {
    let image = read_with_header(
        ".visible .global .align 4 .u32 counter = 7;
        .global .align 1 .b8 text[4] = {104, 105};
        .global .attribute(.managed) .align 8 .f64 shared_value;
        .const .f32 table[] = {0f3F800000, -0f3F800000};
        .global .u64 pointer = counter;
        .global .s16 a = -2, b;
        .extern .global .u32 elsewhere;",
    )
    .unwrap();
    let seen: Vec<_> = image
        .variables
        .iter()
        .map(|v| (v.name.as_str(), v.size_bytes, v.is_managed, v.initial.clone()))
        .collect();
    assert_eq!(
        seen,
        [
            ("counter", 4, false, Some(vec![7, 0, 0, 0])),
            ("text", 4, false, Some(vec![104, 105])),
            ("shared_value", 8, true, Some(vec![])),
            ("table", 8, false, Some([1_f32.to_le_bytes(), (-1_f32).to_le_bytes()].concat())),
            ("pointer", 8, false, None),
            ("a", 2, false, Some(vec![0xfe, 0xff])),
            ("b", 2, false, Some(vec![])),
        ]
    );
}

#[test]
fn functions_and_debug_sections_are_passed_over() {
    let image = read_with_header(
        ".file 1 \"a.cu\"
        .func (.param .b32 r) helper(.param .b32 a) { st.param.b32 [r], 1; ret; }
        .extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
        .entry f() {
            .reg .b32 %r<3>;
            { .param .b32 retval0; call.uni (retval0), helper, (%r1); }
            ret;
        }
        .section .debug_info { .b8 1, 2 }",
    )
    .unwrap();
    assert_eq!(image.kernels.len(), 1);
}

#[test]
fn what_is_not_ptx_is_refused() {
    let bad = [
        "nonsense",
        ".entry f( { ret; }",
        ".entry f() { ret }",
        ".entry f() { ret;",
        ".entry f() { frobnicate.u32 %r1, %r2; }",
        ".entry f() { mov.u32 %r1, (%r2; }",
        ".entry f(.param .q7 x) { ret; }",
        ".entry f() { ret; } .entry f() { ret; }",
        ".entry f() .sideways 3 { ret; }",
        ".entry 5() { ret; }",
        ".global .u32;",
        ".global .u32 a[;",
        ".address_size 32",
    ];
    for text in bad {
        assert_eq!(read_with_header(text).err(), Some(CUresult::INVALID_PTX), "{text}");
    }
    for text in [".version 8.0", ".version 8 .target sm_80", ".version 8.0 .target x86"] {
        assert_eq!(read(text, 90).err(), Some(CUresult::INVALID_PTX), "{text}");
    }
}

#[test]
fn a_version_that_is_too_new_is_said_before_anything_in_the_text_is_judged() {
    let text = ".version 9.1 .target sm_90 .novelty";
    assert_eq!(read(text, 90).err(), Some(CUresult::UNSUPPORTED_PTX_VERSION));
    assert_eq!(read(text, 91).err(), Some(CUresult::INVALID_PTX));
}

#[test]
fn no_cut_through_a_text_makes_the_reader_panic() {
    let text = include_str!("../../../tests/images/axpy-nvrtc-13.5-sm_90.ptx");
    assert_eq!(read(text, 95).unwrap().kernels.len(), 2);
    for end in 0..text.len() {
        drop(read(&text[..end], 95));
        drop(read(&text[end..], 95));
    }
}
