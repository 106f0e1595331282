//! The driver value.

use cuhold_handles::Device;

cuhold_testkit::enrol! {
    Driver::version |run| {
        run.repeat(|| run.driver().version());
    }

    Driver::device_count |run| {
        let driver = run.new_driver();
        run.repeat(|| driver.device_count());
    }

    Driver::verify |run| {
        let driver = run.new_driver();
        run.repeat(|| driver.verify());
    }

    Driver::close |run| {
        let driver = run.new_driver();
        for ordinal in 0..driver.device_count().unwrap() {
            drop(Device::with_driver(&driver, ordinal).unwrap());
        }
        drop(run.keep_or(run.op(|| driver.close())));
    }

    Driver::drop |run| {
        let driver = run.new_driver();
        drop(Device::with_driver(&driver, 0).unwrap());
        run.op(|| {
            drop(driver);
            run.wait_for_new_drivers();
        });
    }
}
