//! Where the vertices of a layered graph go, layer by layer: near what they are linked with, and none over another.

use super::layers::{Boxes, GAP, Laid, Layered, Piece, Vertex, WAYPOINT};
use std::collections::BTreeMap;

/// How far from each other two vertices of a layer are at least, from middle to middle.
type Spacing = Vec<f64>;

/// Places everything.
pub(super) fn place(boxes: &Boxes, layered: &Layered) -> Laid {
    let middles = middles(boxes, layered);
    let left = middles
        .iter()
        .map(|(vertex, middle)| middle - width(boxes, *vertex) / 2.0)
        .fold(f64::INFINITY, f64::min);
    let bands = bands(boxes, layered);
    let mut laid = Laid { corners: vec![[0.0; 2]; boxes.sizes.len()], ..Laid::default() };
    for (layer, (top, _)) in layered.layers.iter().zip(&bands) {
        for vertex in layer {
            let x = middles.get(vertex).copied().unwrap_or(0.0) - left;
            let half = width(boxes, *vertex) / 2.0;
            laid.size[0] = laid.size[0].max(x + half);
            if let Vertex::Box(at) = vertex
                && let Some(corner) = laid.corners.get_mut(*at)
            {
                *corner = [x - half, *top];
            }
        }
    }
    laid.size[1] = bands.last().map_or(0.0, |(_, bottom)| *bottom);
    let layer_of: BTreeMap<Vertex, usize> = layered
        .layers
        .iter()
        .enumerate()
        .flat_map(|(layer, vertices)| vertices.iter().map(move |vertex| (*vertex, layer)))
        .collect();
    for (from, to, style) in &layered.links {
        let x = |vertex| middles.get(vertex).copied().unwrap_or(0.0) - left;
        let band = |vertex| layer_of.get(vertex).and_then(|layer| bands.get(*layer)).copied();
        let (Some((top, bottom)), Some((next, _))) = (band(from), band(to)) else { continue };
        let begin = match from {
            Vertex::Box(at) => top + boxes.sizes.get(*at).map_or(0.0, |size| size[1]),
            Vertex::Way { .. } => top,
        };
        laid.pieces.push(Piece {
            from: [x(from), begin],
            straight_to: bottom,
            to: [x(to), next],
            is_end: matches!(to, Vertex::Box(_)),
            style: *style,
        });
    }
    laid
}

pub(super) fn as_float(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::from(u32::MAX), f64::from)
}

fn width(boxes: &Boxes, vertex: Vertex) -> f64 {
    match vertex {
        Vertex::Box(at) => boxes.sizes.get(at).map_or(0.0, |size| size[0]),
        Vertex::Way { .. } => WAYPOINT,
    }
}

/// Where each layer begins and ends.
fn bands(boxes: &Boxes, layered: &Layered) -> Vec<(f64, f64)> {
    let mut top = 0.0;
    layered
        .layers
        .iter()
        .map(|layer| {
            let heights = layer.iter().map(|vertex| match vertex {
                Vertex::Box(at) => boxes.sizes.get(*at).map_or(0.0, |size| size[1]),
                Vertex::Way { .. } => 0.0,
            });
            let height = heights.fold(0.0, f64::max);
            let gap = GAP[1] + 0.6 * as_float(layer.len());
            let band = (top, top + height);
            top += height + gap;
            band
        })
        .collect()
}

/// Where the middle of each vertex is, from left to right.
fn middles(boxes: &Boxes, layered: &Layered) -> BTreeMap<Vertex, f64> {
    let (mut above, mut below) = (BTreeMap::new(), BTreeMap::new());
    for (from, to, _) in &layered.links {
        above.entry(*to).or_insert_with(Vec::new).push(*from);
        below.entry(*from).or_insert_with(Vec::new).push(*to);
    }
    let spacings: Vec<Spacing> = layered.layers.iter().map(|layer| spacing(boxes, layer)).collect();
    let mut middles = BTreeMap::new();
    for (layer, spacing) in layered.layers.iter().zip(&spacings) {
        let whole = spacing.last().copied().unwrap_or(0.0);
        for (vertex, at) in layer.iter().zip(spacing) {
            middles.insert(*vertex, at - whole / 2.0);
        }
    }
    let depth = layered.layers.len();
    for sweep in 0..24 {
        let down = sweep % 2 == 0;
        for step in 0..depth {
            let at = if down { step } else { depth - 1 - step };
            let near = if down { &above } else { &below };
            let other = if down { &below } else { &above };
            let (Some(layer), Some(spacing)) = (layered.layers.get(at), spacings.get(at)) else {
                continue;
            };
            let wanted: Vec<(f64, f64)> = layer
                .iter()
                .map(|vertex| {
                    let own = middles.get(vertex).copied().unwrap_or(0.0);
                    let mean = mean(near.get(vertex), &middles)
                        .or_else(|| mean(other.get(vertex), &middles))
                        .unwrap_or(own);
                    // Long edges are to be straight before boxes stand in the middle.
                    let weight = if matches!(vertex, Vertex::Way { .. }) { 4.0 } else { 1.0 };
                    (mean, weight)
                })
                .collect();
            for (vertex, middle) in layer.iter().zip(settle(&wanted, spacing)) {
                middles.insert(*vertex, middle);
            }
        }
    }
    straighten(boxes, layered, &mut middles);
    middles
}

/// Takes out a slant of the whole: layers that are each a bit further to one side than the one above.
fn straighten(boxes: &Boxes, layered: &Layered, middles: &mut BTreeMap<Vertex, f64>) {
    let extent = |layer: &Vec<Vertex>| {
        let edge = |side: f64, vertex: Option<&Vertex>| {
            let vertex = vertex?;
            Some(middles.get(vertex)? + side * width(boxes, *vertex) / 2.0)
        };
        Some([edge(-1.0, layer.first())?, edge(1.0, layer.last())?])
    };
    let extents: Vec<[f64; 2]> = layered.layers.iter().filter_map(extent).collect();
    let widest = extents.iter().map(|[left, right]| right - left).fold(0.0, f64::max);
    let count = as_float(extents.len());
    let middle = (count - 1.0) / 2.0;
    let (mut slant, mut spread) = (0.0, 0.0);
    for ([left, right], layer) in extents.iter().zip(0_u32..) {
        let from_middle = f64::from(layer) - middle;
        slant += from_middle * (left + right) / 2.0;
        spread += from_middle * from_middle;
    }
    if spread == 0.0 || (slant / spread * count).abs() < widest / 3.0 {
        return;
    }
    for (layer, nth) in layered.layers.iter().zip(0_u32..) {
        let off = (f64::from(nth) - middle) * slant / spread;
        for vertex in layer {
            if let Some(middle) = middles.get_mut(vertex) {
                *middle -= off;
            }
        }
    }
}

fn mean(near: Option<&Vec<Vertex>>, middles: &BTreeMap<Vertex, f64>) -> Option<f64> {
    let near = near?;
    let sum: f64 = near.iter().filter_map(|vertex| middles.get(vertex)).sum();
    (!near.is_empty()).then(|| sum / as_float(near.len()))
}

/// Where the middles would be if all vertices stood as near to each other as they may.
fn spacing(boxes: &Boxes, layer: &[Vertex]) -> Spacing {
    let mut at = 0.0;
    let mut last: Option<f64> = None;
    layer
        .iter()
        .map(|vertex| {
            let half = width(boxes, *vertex) / 2.0;
            at += last.map_or(0.0, |before| before + half + GAP[0]);
            last = Some(half);
            at
        })
        .collect()
}

/// The places in this order, at least so far from each other, that are nearest to those that are wanted: pools of neighbours
/// that want to overlap stand together, at the mean of what they want.
fn settle(wanted: &[(f64, f64)], spacing: &[f64]) -> Vec<f64> {
    // Sum of weights times places, sum of weights, how many.
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for ((place, weight), offset) in wanted.iter().zip(spacing) {
        let mut pool = ((place - offset) * weight, *weight, 1);
        while let Some(before) = pools.last().copied()
            && before.0 / before.1 > pool.0 / pool.1
        {
            pools.pop();
            pool = (pool.0 + before.0, pool.1 + before.1, pool.2 + before.2);
        }
        pools.push(pool);
    }
    let means = pools.iter().flat_map(|(sum, weight, count)| vec![sum / weight; *count]);
    means.zip(spacing).map(|(mean, offset)| mean + offset).collect()
}

#[cfg(test)]
mod tests {
    use super::settle;

    #[test]
    fn what_wants_to_overlap_stands_side_by_side_around_the_mean() {
        let wanted = [(0.0, 1.0), (0.0, 1.0), (100.0, 1.0)];
        assert_eq!(settle(&wanted, &[0.0, 10.0, 20.0]), [-5.0, 5.0, 100.0]);
    }

    #[test]
    fn what_has_room_stands_where_it_wants() {
        assert_eq!(settle(&[(3.0, 1.0), (40.0, 9.0)], &[0.0, 10.0]), [3.0, 40.0]);
    }
}
