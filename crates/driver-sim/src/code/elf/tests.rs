//! What is read from compiled code, by the example of two compilers' output (`tests/images/axpy.cu`).

use super::*;
use crate::code::image::Param;

const IMAGES: [&[u8]; 2] = [
    include_bytes!("../../../tests/images/axpy-nvrtc-12.9-sm_90.cubin"),
    include_bytes!("../../../tests/images/axpy-nvrtc-13.5-sm_90.cubin"),
];

#[test]
fn a_compiler_s_output_is_read_as_its_source_says() {
    for file in IMAGES {
        let image = read(file).unwrap();
        assert_eq!((image.architecture, image.ptx_version), (90, None));
        let axpy = image.kernels.iter().find(|k| k.name == "axpy").unwrap();
        let params = [(0, 4), (8, 16), (24, 8), (32, 8), (40, 4)];
        let params = params.map(|(offset, size)| Param { offset, size });
        assert_eq!(axpy.params.as_deref(), Some(&params[..]));
        assert_eq!(axpy.block_threads_max, Some(256));
        assert_eq!(axpy.static_shared_bytes, 256);
        assert!(axpy.registers > 8);
        let nothing = image.kernels.iter().find(|k| k.name == "nothing").unwrap();
        assert_eq!((nothing.params.as_deref(), nothing.block_threads_max), (Some(&[][..]), None));
        assert_eq!(image.kernels.len(), 2);
    }
}

#[test]
fn variables_are_read_with_what_they_start_with() {
    for file in IMAGES {
        let image = read(file).unwrap();
        let of = |name: &str| image.variables.iter().find(|v| v.name == name).unwrap();
        assert_eq!(of("counter").initial, Some(vec![7, 0, 0, 0]));
        assert_eq!((of("pointer").size_bytes, of("pointer").initial.as_ref()), (8, None));
        assert_eq!(of("scale").size_bytes, 4);
        assert_eq!(image.variables.len(), 3);
    }
}

#[test]
fn the_text_of_the_same_source_gives_the_same_kernels() {
    let text = include_str!("../../../tests/images/axpy-nvrtc-13.5-sm_90.ptx");
    let text = crate::code::ptx::read(text, 95).unwrap();
    let code = read(IMAGES[1]).unwrap();
    for kernel in &text.kernels {
        let other = code.kernels.iter().find(|k| k.name == kernel.name).unwrap();
        assert_eq!(kernel.params, other.params);
        assert_eq!(kernel.block_threads_max, other.block_threads_max);
        assert_eq!(kernel.static_shared_bytes, other.static_shared_bytes);
    }
    assert_eq!(text.kernels.len(), code.kernels.len());
}

#[test]
fn the_file_s_length_follows_from_its_headers() {
    for file in IMAGES {
        let (offset, size) = section_table(&file[..HEADER_BYTES]).unwrap();
        let end = contents_end(&file[offset..offset + size]).unwrap();
        let program_headers = 56 * usize::from(file[56]);
        assert_eq!(end.max(offset + size) + program_headers, file.len());
    }
}

#[test]
fn a_file_that_is_cut_or_is_not_cuda_s_is_refused() {
    let file = IMAGES[1];
    for len in [0, 3, 20, HEADER_BYTES, file.len() / 2] {
        assert_eq!(read(&file[..len]).err(), Some(CUresult::INVALID_IMAGE), "{len}");
    }
    let mut x86 = file.to_vec();
    x86[18] = 62;
    assert_eq!(read(&x86).err(), Some(CUresult::INVALID_IMAGE));
}

#[test]
fn no_byte_of_a_broken_file_makes_the_reader_panic() {
    let file = IMAGES[1];
    let mut broken = file.to_vec();
    for at in 0..file.len() {
        for bits in [0xff, 0x80, 0x01] {
            broken[at] ^= bits;
            drop(read(&broken));
            broken[at] = file[at];
        }
    }
}
