//! Settings of the current context: flags, limits, cache preference, and what it can do.

use cuhold_driver_sys::ffi::*;

use super::flags_are_valid;
use crate::world::{Answer, Out, Turn};

/// The lowest stream priority.
pub(crate) const LEAST_PRIORITY: c_int = 0;
/// The highest stream priority (measured: −100 is clamped to it).
pub(crate) const GREATEST_PRIORITY: c_int = -5;

pub(crate) fn flags(turn: &mut Turn<'_>, flags: Out<c_uint>) -> Answer {
    let flags = flags.required()?;
    let key = turn.current()?;
    flags.write(turn.context_data(key)?.flags);
    Ok(())
}

pub(crate) fn set_flags(turn: &mut Turn<'_>, flags: c_uint) -> Answer {
    let key = turn.current()?;
    if !flags_are_valid(flags) {
        return Err(CUresult::INVALID_VALUE);
    }
    turn.context_data(key)?.flags = flags;
    Ok(())
}

/// The value of a limit that wasn't set, in its unit; `None` for one that a simulated device doesn't have.
fn limit_default(limit: CUlimit) -> Result<usize, CUresult> {
    Ok(match limit {
        CUlimit::CU_LIMIT_STACK_SIZE => 1024,
        CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE => 7 << 20,
        CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE => 8 << 20,
        CUlimit::CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT => 2048,
        CUlimit::CU_LIMIT_MAX_L2_FETCH_GRANULARITY => 64,
        CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE => 0,
        _ if limit.0 < CUlimit::CU_LIMIT_MAX.0 => return Err(CUresult::UNSUPPORTED_LIMIT),
        _ => return Err(CUresult::INVALID_VALUE),
    })
}

pub(crate) fn limit(turn: &mut Turn<'_>, value: Out<usize>, limit: CUlimit) -> Answer {
    let value = value.required()?;
    let key = turn.current()?;
    let default = limit_default(limit)?;
    let set =
        turn.context_data(key)?.limits.iter().find(|(of, _)| *of == limit).map(|(_, set)| *set);
    value.write(set.unwrap_or(default));
    Ok(())
}

pub(crate) fn set_limit(turn: &mut Turn<'_>, limit: CUlimit, value: usize) -> Answer {
    let key = turn.current()?;
    turn.not_lost()?;
    turn.check_capture()?;
    limit_default(limit)?;
    let limits = &mut turn.context_data(key)?.limits;
    limits.retain(|(of, _)| *of != limit);
    limits.push((limit, value));
    Ok(())
}

pub(crate) fn cache_config(turn: &mut Turn<'_>, config: Out<CUfunc_cache>) -> Answer {
    let config = config.required()?;
    let key = turn.current()?;
    config.write(turn.context_data(key)?.cache_config);
    Ok(())
}

pub(crate) fn set_cache_config(turn: &mut Turn<'_>, config: CUfunc_cache) -> Answer {
    let key = turn.current()?;
    turn.check_capture()?;
    if config.0 > CUfunc_cache::CU_FUNC_CACHE_PREFER_EQUAL.0 {
        return Err(CUresult::INVALID_VALUE);
    }
    turn.context_data(key)?.cache_config = config;
    Ok(())
}

pub(crate) fn priority_range(
    turn: &mut Turn<'_>,
    least: Out<c_int>,
    greatest: Out<c_int>,
) -> Answer {
    turn.current()?;
    least.write(LEAST_PRIORITY);
    greatest.write(GREATEST_PRIORITY);
    Ok(())
}

pub(crate) fn reset_persisting_l2(turn: &mut Turn<'_>) -> Answer {
    turn.current()?;
    turn.not_lost()
}

/// A context runs on all multiprocessors of its device.
pub(crate) fn exec_affinity(
    turn: &mut Turn<'_>,
    affinity: Out<CUexecAffinityParam>,
    kind: CUexecAffinityType,
) -> Answer {
    let affinity = affinity.required()?;
    let key = turn.current()?;
    if kind != CUexecAffinityType::CU_EXEC_AFFINITY_TYPE_SM_COUNT {
        return Err(CUresult::UNSUPPORTED_EXEC_AFFINITY);
    }
    let device = turn.context_data(key)?.device;
    let all = turn.state.device(device)?.options.multiprocessors;
    affinity.write(CUexecAffinityParam {
        type_: kind,
        param: CUexecAffinityParam_st__bindgen_ty_1 {
            smCount: CUexecAffinitySmCount { val: c_uint::try_from(all).unwrap_or_default() },
        },
    });
    Ok(())
}
