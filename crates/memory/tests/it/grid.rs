//! Boxes: every shape against a model on the host, bounds, copies that own their host side.

use cuhold_handles::{ErrorKind, Stream};
use cuhold_memory::{Buffer, Grid};
use cuhold_testkit::{Kit, run};

fn stream(t: &Kit) -> Stream {
    t.device().new_stream().unwrap()
}

/// The places of a box's elements in linear memory, in order.
fn places(grid: Grid, pitch: usize, slice_rows: usize) -> Vec<usize> {
    let [width, height, depth] = grid.size();
    let rows = (0..depth).flat_map(|slice| (0..height).map(move |row| slice * slice_rows + row));
    rows.flat_map(|row| (0..width).map(move |column| row * pitch + column)).collect()
}

/// Shapes with their pitch and the rows from slice to slice: packed, with gaps of each kind, thin in each direction.
fn shapes() -> Vec<(Grid, usize, usize)> {
    let sizes = [[5, 1, 1], [1, 5, 1], [1, 1, 5], [3, 4, 1], [3, 4, 2], [4, 1, 3]];
    let mut shapes = Vec::new();
    for [width, height, depth] in sizes {
        for (pitch, rows) in
            [(width, height), (width + 2, height), (width, height + 1), (width + 3, height + 2)]
        {
            let grid = Grid::cube([width, height, depth]).pitch(pitch).slice_rows(rows);
            shapes.push((grid, pitch, rows));
        }
    }
    shapes
}

const LEN: usize = 200;

#[test]
fn a_box_of_every_shape_is_written_read_and_filled_and_its_gaps_stay() {
    run(|t| {
        let stream = stream(t);
        for (grid, pitch, rows) in shapes() {
            let mut model = vec![0_u16; LEN];
            let mut buffer = Buffer::from_slice(&stream, &model).unwrap();
            let packed: Vec<u16> = (100..).take(grid.len()).collect();
            let offset = 7;
            let mut target = buffer.view_mut(offset..).unwrap().into_grid(grid).unwrap();
            target.write_slice(&packed).unwrap();
            for (place, value) in places(grid, pitch, rows).into_iter().zip(&packed) {
                model[offset + place] = *value;
            }
            assert_eq!(target.as_view().to_vec().unwrap(), packed, "{grid:?}");
            assert_eq!(buffer.to_vec().unwrap(), model, "{grid:?}");
            let mut target = buffer.view_mut(offset..).unwrap().into_grid(grid).unwrap();
            target.fill(9).unwrap();
            for place in places(grid, pitch, rows) {
                model[offset + place] = 9;
            }
            assert_eq!(buffer.to_vec().unwrap(), model, "{grid:?}");
        }
    });
}

#[test]
fn a_box_is_copied_between_any_two_pitches() {
    run(|t| {
        let stream = stream(t);
        let elements: Vec<u32> = (0..).take(LEN).collect();
        let from = Buffer::from_slice(&stream, &elements).unwrap();
        for (to_grid, to_pitch, to_rows) in shapes() {
            for (from_grid, from_pitch, from_rows) in shapes() {
                if from_grid.size() != to_grid.size() {
                    continue;
                }
                let mut model = vec![0_u32; LEN];
                let mut to = Buffer::<u32>::zeroed(&stream, LEN).unwrap();
                let source = from.view(3..).unwrap().grid(from_grid).unwrap();
                let mut target = to.as_view_mut().into_grid(to_grid).unwrap();
                target.copy_from(source).unwrap();
                let source = places(from_grid, from_pitch, from_rows);
                for (at, from) in places(to_grid, to_pitch, to_rows).into_iter().zip(source) {
                    model[at] = elements[3 + from];
                }
                assert_eq!(to.to_vec().unwrap(), model, "{to_grid:?} {from_grid:?}");
            }
        }
    });
}

#[test]
fn a_copy_of_a_box_owns_its_host_side() {
    run(|t| {
        let stream = stream(t);
        let mut buffer = Buffer::<u8>::zeroed(&stream, LEN).unwrap();
        for (grid, _, _) in shapes() {
            let packed: Vec<u8> = (1..).take(grid.len()).collect();
            let mut target = buffer.as_view_mut().into_grid(grid).unwrap();
            let sent = target.write_from(packed.clone()).unwrap();
            let received = target.as_view().read_to(vec![0; grid.len()]).unwrap();
            assert_eq!(received.wait().unwrap(), packed);
            assert_eq!(sent.wait().unwrap(), packed);
        }
    });
}

#[test]
fn rows_wider_than_a_chunk_and_slices_of_more_rows_than_one_holds_go_there_and_back() {
    run(|t| {
        let stream = stream(t);
        for size in [[(1 << 20) + 5, 2, 1], [1000, 1300, 2]] {
            let [width, height, depth] = size;
            let grid = Grid::cube(size).pitch(width + 3).slice_rows(height + 1);
            let packed: Vec<u8> =
                (0..width * height * depth).map(|i| (i % 251).try_into().unwrap()).collect();
            let mut buffer = Buffer::<u8>::zeroed(&stream, grid.span()).unwrap();
            let mut target = buffer.as_view_mut().into_grid(grid).unwrap();
            target.write_slice(&packed).unwrap();
            assert!(target.as_view().to_vec().unwrap() == packed);
            let sum: usize = buffer.to_vec().unwrap().into_iter().map(usize::from).sum();
            assert_eq!(sum, packed.into_iter().map(usize::from).sum(), "the gaps are still zero");
        }
    });
}

#[test]
fn a_box_that_is_not_within_its_memory_or_overlaps_itself_is_refused_before_any_call() {
    run(|t| {
        let (stream, elsewhere) = (stream(t), stream(t));
        let mut buffer = Buffer::<u32>::zeroed(&stream, 20).unwrap();
        let other = Buffer::<u32>::zeroed(&elsewhere, 20).unwrap();
        let (errors, calls) = t.calls(|| {
            let view = buffer.as_view();
            let mut errors = vec![
                view.grid(Grid::rect([5, 5])).unwrap_err(),
                view.grid(Grid::rect([5, 4]).pitch(6)).unwrap_err(),
                view.grid(Grid::rect([5, 2]).pitch(4)).unwrap_err(),
                view.grid(Grid::cube([2, 3, 2]).slice_rows(2)).unwrap_err(),
                view.grid(Grid::rect([2, usize::MAX]).pitch(usize::MAX)).unwrap_err(),
                view.grid(Grid::rect([2, 2])).unwrap().read_into(&mut [0; 3]).unwrap_err(),
            ];
            let mut target = buffer.as_view_mut().into_grid(Grid::rect([2, 2])).unwrap();
            errors.push(target.write_slice(&[0; 5]).unwrap_err());
            let source = other.as_view().grid(Grid::rect([2, 2])).unwrap();
            errors.push(target.copy_from(source).unwrap_err());
            errors
        });
        assert!(calls.is_empty(), "{calls:?}");
        for error in &errors {
            assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
        }
        assert_eq!(errors[0].to_string(), "grid: it spans 25 elements where there are 20");
        let rows = Grid::rect([2, 4]);
        let mut target = buffer.as_view_mut().into_grid(rows).unwrap();
        let same = Buffer::<u32>::zeroed(&stream, 20).unwrap();
        let source = same.as_view().grid(Grid::rect([4, 2])).unwrap();
        assert_eq!(target.copy_from(source).unwrap_err().kind(), ErrorKind::Argument);
        let empty = buffer.as_view().grid(Grid::rect([0, 9]).pitch(9)).unwrap();
        assert_eq!((empty.device_ptr(), empty.to_vec().unwrap().len()), (0, 0));
    });
}

#[test]
fn boxes_work_whatever_device_is_current() {
    cuhold_testkit::run_with(cuhold_driver_sim::SimOptions::with_devices(2), |t| {
        let Some(second) = t.second_device() else { return };
        let stream = stream(t);
        let mut buffer = Buffer::<u8>::zeroed(&stream, 64).unwrap();
        let grid = Grid::cube([3, 2, 2]).pitch(4).slice_rows(3);
        second
            .with_current(|| {
                let mut target = buffer.as_view_mut().into_grid(grid).unwrap();
                target.write_slice(&[5; 12]).unwrap();
                assert_eq!(target.as_view().to_vec().unwrap(), [5; 12]);
                target.fill(6).unwrap();
                let sent = target.write_from(vec![7; 12]).unwrap();
                assert_eq!(sent.wait().unwrap(), [7; 12]);
                assert_eq!(target.as_view().to_vec().unwrap(), [7; 12]);
            })
            .unwrap();
    });
}
