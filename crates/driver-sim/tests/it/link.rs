//! The driver's linker.

use cuhold_driver_sim::{
    ObjectKind,
    cuhold_driver_sys::{DriverApi as _, ffi::*},
};

use crate::{
    ask::{assert_clean, call, get, sim_with_context},
    code::function,
};

#[test]
fn ptx_is_linked_into_an_image_with_all_kernels_and_a_name_comes_once() {
    let (sim, _) = sim_with_context();
    let part = |name: &str| {
        format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry {name}() {{ ret; }}\0"
        )
    };
    let add = |state: CUlinkState, text: &str| {
        let (data, kind) = (text.as_ptr().cast_mut().cast(), CUjitInputType::CU_JIT_INPUT_PTX);
        let (name, options, values) =
            (c"part".as_ptr(), std::ptr::null_mut(), std::ptr::null_mut());
        call!(sim, cuLinkAddData_v2(state, kind, data, text.len(), name, 0, options, values))
    };
    let link = || {
        let (mut state, options, values) =
            (CUlinkState::NULL, std::ptr::null_mut(), std::ptr::null_mut());
        call!(sim, cuLinkCreate_v2(0, options, values, &raw mut state)).unwrap();
        state
    };
    let (mut cubin, mut size) = (std::ptr::null_mut(), 0);
    let state = link();
    add(state, &part("one")).unwrap();
    add(state, &part("two")).unwrap();
    call!(sim, cuLinkComplete(state, &raw mut cubin, &raw mut size)).unwrap();
    let module: CUmodule = get!(sim, cuModuleLoadData(out, cubin)).unwrap();
    call!(sim, cuLinkDestroy(state)).unwrap();
    function(&sim, module, "one").unwrap();
    function(&sim, module, "two").unwrap();
    let twice = link();
    add(twice, &part("one")).unwrap();
    assert_eq!(add(twice, &part("one")), Err(CUresult::INVALID_SOURCE));
    let broken = call!(sim, cuLinkComplete(twice, &raw mut cubin, &raw mut size));
    assert_eq!(broken, Err(CUresult::INVALID_SOURCE));
    assert_eq!(sim.live(ObjectKind::LinkState), 1);
    assert_clean(&sim);
}
