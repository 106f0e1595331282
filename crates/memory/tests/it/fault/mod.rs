//! Fault enumeration: each driver call of each public operation fails, refused and done all the same, alone and together
//! with every later one. After each run: every failure was told exactly once, nothing dangles, nothing leaks but what
//! was said to, and the thread's context and mode are what they were.

mod run;

use cuhold_driver_sys::{CUresult, Call, Effect, Fault, Kind};
use cuhold_memory::{Buffer, HostBuffer, Pool, PoolOptions};
use run::{FATAL, FIRST, Run, SECOND, SITUATIONS, Scenario, Situation, once};

const CHUNK: usize = 1 << 20;

/// How the `nth` call, of this kind, may fail.
fn ways(kind: Kind, nth: u64, status: CUresult) -> Vec<Fault> {
    let refused = Fault::refused(status).nth(nth);
    // A creation that is carried out and says otherwise has made what nobody can name.
    if kind == Kind::Create {
        return vec![refused];
    }
    vec![refused, Fault::new(Effect::DoneButFailed(status)).nth(nth)]
}

/// Each call of the scenario failing alone, and with it all that come after it. Says how many runs there were.
fn singles(scenario: Scenario) -> usize {
    let mut runs = 0;
    for situation in SITUATIONS {
        let calls = once(scenario, situation, &[]);
        for (nth, call) in (1..).zip(&calls) {
            for fault in ways(call.columns().kind, nth, FIRST) {
                once(scenario, situation, &[fault]);
                runs += 1;
            }
            if !is_thread_state(*call) {
                let fatal = Fault::new(Effect::StickyFromHere(FATAL)).nth(nth);
                once(scenario, situation, &[fatal]);
                runs += 1;
            }
        }
    }
    runs
}

/// The calls that a fatal error doesn't touch.
fn is_thread_state(call: Call) -> bool {
    call.columns().kind == Kind::Thread || call == Call::cuCtxGetCurrent
}

/// Each call failing, and then each later one of what is then called.
fn pairs(scenario: Scenario) -> usize {
    let mut runs = singles(scenario);
    for situation in SITUATIONS {
        let calls = once(scenario, situation, &[]);
        for (nth, call) in (1..).zip(&calls) {
            for first in ways(call.columns().kind, nth, FIRST) {
                runs += seconds(scenario, situation, first, nth);
            }
        }
    }
    runs
}

/// Each call after the `nth`, on which `first` fires, failing too.
fn seconds(scenario: Scenario, situation: Situation, first: Fault, nth: u64) -> usize {
    let mut runs = 0;
    let calls = once(scenario, situation, &[first]);
    for (later, call) in (1..).zip(&calls).filter(|(later, _)| *later > nth) {
        // A fault doesn't count the call on which another one fired.
        for second in ways(call.columns().kind, later - 1, SECOND) {
            once(scenario, situation, &[first, second]);
            runs += 1;
        }
    }
    runs
}

/// A test that runs the enumeration of a scenario.
macro_rules! enumerated {
    ($($name:ident $how:ident |$run:ident| $body:block)*) => { $(
        #[test]
        fn $name() {
            fn scenario($run: &Run) -> Option<()> {
                $body
                Some(())
            }
            assert!($how(scenario) > 0);
        }
    )* };
}

enumerated! {
    each_call_of_a_pool_s_making_and_ending_may_fail pairs |run| {
        let device = &run.world.device;
        let pool = run.keep(Pool::new(device, PoolOptions::default().release_threshold_bytes(9)))?;
        let other = run.keep(Pool::new(device, PoolOptions::default()))?;
        drop(pool);
        drop(run.keep_or(other.close()));
    }

    each_call_of_a_pool_s_attributes_may_fail singles |run| {
        let pool = run.keep(Pool::default_of(&run.world.device))?;
        run.keep(pool.used_bytes());
        run.keep(pool.used_high_bytes());
        run.keep(pool.reserved_bytes());
        run.keep(pool.reserved_high_bytes());
        run.keep(pool.reset_used_high());
        run.keep(pool.reset_reserved_high());
        run.keep(pool.set_release_threshold_bytes(5));
        run.keep(pool.release_threshold_bytes());
        run.keep(pool.trim_to(0));
        drop(run.keep(Pool::current_of(&run.world.device))?);
    }

    each_call_of_making_and_dropping_may_fail pairs |run| {
        let pool = run.keep(Pool::default_of(&run.world.device))?;
        let one = run.keep(Buffer::<u32>::uninit_in(&pool, &run.stream, 10))?;
        let two = run.buffer(20)?;
        drop((one, two));
    }

    each_call_of_zeroing_may_fail pairs |run| {
        drop(run.keep(Buffer::<u32>::zeroed(&run.stream, 10))?);
    }

    each_call_of_closing_may_fail pairs |run| {
        let buffer = run.buffer(10)?;
        drop(run.keep_or(buffer.close()));
    }

    each_call_of_keeping_may_fail pairs |run| {
        let buffer = run.buffer(10)?;
        let kept = buffer.keep();
        drop(run.keep_or(buffer.close()));
        drop(kept);
    }

    each_call_of_making_from_a_slice_may_fail pairs |run| {
        drop(run.keep(Buffer::from_slice(&run.stream, &[1, 2, 3]))?);
    }

    each_call_of_a_long_slice_s_copy_may_fail singles |run| {
        let mut bytes = vec![7; 9 * CHUNK / 2];
        let mut buffer = run.keep(Buffer::<u8>::uninit(&run.stream, bytes.len()))?;
        run.keep(buffer.write_slice(&bytes));
        run.keep(buffer.read_into(&mut bytes));
    }

    each_call_of_reading_may_fail pairs |run| {
        let buffer = run.buffer(10)?;
        run.keep(buffer.to_vec());
    }

    each_call_of_fills_and_device_copies_may_fail pairs |run| {
        let mut one = run.buffer(10)?;
        let two = run.buffer(10)?;
        run.keep(one.fill(7));
        run.keep(one.copy_from(&two));
    }

    each_call_of_moving_may_fail pairs |run| {
        let mut buffer = run.buffer(10)?;
        let other = run.keep(run.world.device.new_stream())?;
        run.keep(buffer.move_to(&other));
        run.keep(buffer.fill(1));
    }

    each_call_of_an_awaited_copy_may_fail pairs |run| {
        let mut buffer = run.buffer(3)?;
        let sent = run.keep_or(buffer.write_from(vec![1, 2, 3]));
        // Of both a pending copy comes.
        let sent = sent.unwrap_or_else(|pending| pending);
        run.keep(sent.is_done());
        match run.keep_or(sent.wait()) {
            Ok(memory) => assert_eq!(memory, [1, 2, 3]),
            Err(pending) => drop(pending),
        }
    }

    each_call_of_a_dropped_copy_may_fail pairs |run| {
        let buffer = run.buffer(3)?;
        drop(run.keep_or(buffer.read_to(vec![1, 2, 3])));
    }

    each_call_of_host_memory_may_fail pairs |run| {
        let context = run.world.device.context();
        let one = run.keep(HostBuffer::<u32>::zeroed(context, 10))?;
        let two = run.keep(HostBuffer::from_slice(context, &[1, 2]))?;
        drop(run.keep_or(one.close()));
        drop(two);
    }
}
