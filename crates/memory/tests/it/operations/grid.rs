//! Boxes: copied in both directions and between each other, filled.

use bytemuck::Pod;
use cuhold_memory::{Buffer, Grid, GridView, GridViewMut};
use cuhold_testkit::Run;
use std::cell::RefCell;

/// With gaps between its rows, with gaps between its slices, and without.
const GRIDS: [Grid; 3] =
    [Grid::rect([2, 2]).pitch(3), Grid::cube([2, 2, 2]).pitch(3).slice_rows(3), Grid::rect([2, 2])];

fn buffer<T: Pod>(run: &Run<'_>) -> Buffer<T> {
    Buffer::uninit(run.stream(), 32).unwrap()
}

fn view<T: Pod>(buffer: &Buffer<T>, grid: Grid) -> GridView<'_, T> {
    buffer.as_view().grid(grid).unwrap()
}

fn view_mut<T: Pod>(buffer: &mut Buffer<T>, grid: Grid) -> GridViewMut<'_, T> {
    buffer.as_view_mut().into_grid(grid).unwrap()
}

/// Fills elements of one size, with gaps and without.
fn fill<T: Pod>(buffer: &RefCell<Buffer<T>>, value: T) -> cuhold_handles::Result<()> {
    GRIDS.into_iter().try_for_each(|grid| view_mut(&mut buffer.borrow_mut(), grid).fill(value))
}

cuhold_testkit::enrol! {
    GridView::to_vec |run| {
        let buffer = buffer::<u32>(run);
        run.repeat(|| GRIDS.into_iter().try_for_each(|grid| view(&buffer, grid).to_vec().map(drop)));
    }

    GridView::read_into |run| {
        let buffer = buffer::<u32>(run);
        run.repeat(|| {
            let mut to = [0; 8];
            GRIDS.into_iter().try_for_each(|grid| view(&buffer, grid).read_into(&mut to[..grid.len()]))
        });
    }

    GridView::read_to |run| {
        let buffer = buffer::<u32>(run);
        let copies = run.op(|| GRIDS.map(|grid| view(&buffer, grid).read_to(vec![0; grid.len()])));
        for copy in copies {
            drop(run.keep_or(copy));
        }
    }

    GridViewMut::fill |run| {
        let (one, two) = (RefCell::new(buffer::<u8>(run)), RefCell::new(buffer::<u16>(run)));
        let four = RefCell::new(buffer::<u32>(run));
        run.repeat(|| {
            fill(&one, 7)?;
            fill(&two, 7)?;
            fill(&four, 7)
        });
    }

    GridViewMut::write_slice |run| {
        let buffer = RefCell::new(buffer::<u32>(run));
        let from = [7; 8];
        run.repeat(|| {
            GRIDS.into_iter().try_for_each(|grid| {
                view_mut(&mut buffer.borrow_mut(), grid).write_slice(&from[..grid.len()])
            })
        });
    }

    GridViewMut::write_from |run| {
        let mut buffer = buffer::<u32>(run);
        let copies = run.op(|| {
            GRIDS.map(|grid| view_mut(&mut buffer, grid).write_from(vec![0; grid.len()]))
        });
        for copy in copies {
            drop(run.keep_or(copy));
        }
    }

    GridViewMut::copy_from |run| {
        let (to, from) = (RefCell::new(buffer::<u32>(run)), buffer::<u32>(run));
        run.repeat(|| {
            GRIDS.into_iter().try_for_each(|grid| {
                view_mut(&mut to.borrow_mut(), grid).copy_from(view(&from, grid))
            })
        });
    }

    GridViewMut::copy_across |run| {
        let to = RefCell::new(buffer::<u32>(run));
        let near = Buffer::uninit(&run.new_stream(), 32).unwrap();
        let far = Buffer::uninit(&run.second_device().new_stream().unwrap(), 32).unwrap();
        run.repeat(|| {
            GRIDS.into_iter().try_for_each(|grid| {
                view_mut(&mut to.borrow_mut(), grid).copy_across(view(&near, grid))?;
                view_mut(&mut to.borrow_mut(), grid).copy_across(view(&far, grid))
            })
        });
    }
}
