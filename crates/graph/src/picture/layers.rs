//! Where the boxes of a picture go: in layers from top to bottom, so that every edge leads down.
//!
//! ```text
//!   layers ──► waypoints of long edges ──► an order in each layer with few crossings ──► places
//! ```
//!
//! Parts of a graph that no edge connects are laid out apart from each other, and packed into rows.
//!
//! Source: Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System Structures" (1981).

use super::places;
use std::collections::{BTreeMap, BTreeSet};

/// Between boxes of a layer, between layers, between parts.
pub(super) const GAP: [f64; 3] = [22.0, 44.0, 36.0];

/// How wide the room for a long edge is.
pub(super) const WAYPOINT: f64 = 6.0;

/// What is laid out: boxes with width and height, and edges between them.
#[derive(Debug, Default)]
pub(super) struct Boxes {
    pub(super) sizes: Vec<[f64; 2]>,
    /// From, to, and a style: only edges of one style share a way.
    pub(super) edges: Vec<(usize, usize, u8)>,
}

/// A piece of an edge, or of several that share it.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Piece {
    /// It leaves here, goes straight down to this height, and curves from there.
    pub(super) from: [f64; 2],
    pub(super) straight_to: f64,
    pub(super) to: [f64; 2],
    pub(super) is_end: bool,
    pub(super) style: u8,
}

/// Where everything is.
#[derive(Debug, Default)]
pub(super) struct Laid {
    /// The upper left corner of each box.
    pub(super) corners: Vec<[f64; 2]>,
    pub(super) pieces: Vec<Piece>,
    pub(super) size: [f64; 2],
}

/// Lays out boxes. Edges that don't lead down, which a graph without cycles hasn't, aren't drawn.
pub(super) fn lay_out(boxes: &Boxes) -> Laid {
    let mut parts: Vec<(Vec<usize>, Laid)> = Vec::new();
    for members in parts_of(boxes) {
        let laid = lay_out_part(&part(boxes, &members));
        parts.push((members, laid));
    }
    pack(boxes.sizes.len(), parts)
}

/// The boxes that edges connect, part by part.
fn parts_of(boxes: &Boxes) -> Vec<Vec<usize>> {
    let count = boxes.sizes.len();
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (from, to, _) in &boxes.edges {
        for (a, b) in [(*from, *to), (*to, *from)] {
            if let Some(list) = next.get_mut(a) {
                list.push(b);
            }
        }
    }
    let mut seen = vec![false; count];
    let mut parts = Vec::new();
    for first in 0..count {
        let (mut open, mut members) = (vec![first], Vec::new());
        while let Some(at) = open.pop() {
            if seen.get_mut(at).is_some_and(|seen| !std::mem::replace(seen, true)) {
                members.push(at);
                open.extend(next.get(at).into_iter().flatten());
            }
        }
        if !members.is_empty() {
            members.sort_unstable();
            parts.push(members);
        }
    }
    parts
}

fn part(boxes: &Boxes, members: &[usize]) -> Boxes {
    let places: BTreeMap<usize, usize> =
        members.iter().enumerate().map(|(place, member)| (*member, place)).collect();
    let sizes = members.iter().filter_map(|member| boxes.sizes.get(*member)).copied().collect();
    let edges = boxes
        .edges
        .iter()
        .filter_map(|(from, to, style)| Some((*places.get(from)?, *places.get(to)?, *style)));
    Boxes { sizes, edges: edges.collect() }
}

/// Puts parts beside and below each other, so that the whole isn't much wider than high.
fn pack(count: usize, parts: Vec<(Vec<usize>, Laid)>) -> Laid {
    let area: f64 =
        parts.iter().map(|(_, laid)| (laid.size[0] + GAP[2]) * (laid.size[1] + GAP[2])).sum();
    let widest = parts.iter().map(|(_, laid)| laid.size[0]).fold(0.0, f64::max);
    let most = widest.max((area * 1.8).sqrt());
    let mut whole = Laid { corners: vec![[0.0; 2]; count], ..Laid::default() };
    let ([mut x, mut y], mut row) = ([0.0_f64; 2], 0.0_f64);
    for (members, laid) in parts {
        if x > 0.0 && x + laid.size[0] > most {
            (x, y, row) = (0.0, y + row + GAP[2], 0.0);
        }
        for (member, corner) in members.iter().zip(&laid.corners) {
            if let Some(place) = whole.corners.get_mut(*member) {
                *place = [corner[0] + x, corner[1] + y];
            }
        }
        whole.pieces.extend(laid.pieces.into_iter().map(|piece| Piece {
            from: [piece.from[0] + x, piece.from[1] + y],
            straight_to: piece.straight_to + y,
            to: [piece.to[0] + x, piece.to[1] + y],
            ..piece
        }));
        whole.size = [whole.size[0].max(x + laid.size[0]), whole.size[1].max(y + laid.size[1])];
        (x, row) = (x + laid.size[0] + GAP[2], row.max(laid.size[1]));
    }
    whole
}

/// A vertex of the layered graph: a box, or a waypoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Vertex {
    Box(usize),
    /// Of edges of a style from, or else to, this box, in this layer.
    Way {
        of: usize,
        leaves: bool,
        style: u8,
        layer: usize,
    },
}

/// A graph in layers: every link leads from one layer to the next.
#[derive(Debug, Default)]
pub(super) struct Layered {
    pub(super) layers: Vec<Vec<Vertex>>,
    /// From, to, style.
    pub(super) links: BTreeSet<(Vertex, Vertex, u8)>,
}

fn lay_out_part(boxes: &Boxes) -> Laid {
    let ranks = ranks(boxes);
    let mut layered = layered(boxes, &ranks);
    order(&mut layered);
    places::place(boxes, &layered)
}

/// Which layer each box is in: behind all that lead to it, and no layer much longer than there are layers.
fn ranks(boxes: &Boxes) -> Vec<usize> {
    let count = boxes.sizes.len();
    let (mut waiting, mut next) = (vec![0_usize; count], vec![Vec::new(); count]);
    for (from, to, _) in &boxes.edges {
        if let (Some(waiting), Some(next)) = (waiting.get_mut(*to), next.get_mut(*from)) {
            *waiting += 1;
            next.push(*to);
        }
    }
    // As many to a layer as make a picture about twice as wide as high.
    let most = (6..).find(|most| most * most >= count).unwrap_or(6);
    let mut ranks = vec![0_usize; count];
    let mut in_layer: Vec<usize> = Vec::new();
    let mut open: BTreeSet<(usize, usize)> = BTreeSet::new();
    open.extend(waiting.iter().enumerate().filter(|(_, w)| **w == 0).map(|(at, _)| (0, at)));
    while let Some((least, at)) = open.pop_first() {
        let mut rank = least;
        while in_layer.get(rank).is_some_and(|taken| *taken >= most) {
            rank += 1;
        }
        if in_layer.len() <= rank {
            in_layer.resize(rank + 1, 0);
        }
        if let (Some(taken), Some(own)) = (in_layer.get_mut(rank), ranks.get_mut(at)) {
            (*taken, *own) = (*taken + 1, rank);
        }
        for to in next.get(at).into_iter().flatten() {
            let (Some(waiting), Some(least)) = (waiting.get_mut(*to), ranks.get_mut(*to)) else {
                continue;
            };
            (*waiting, *least) = (*waiting - 1, (*least).max(rank + 1));
            if *waiting == 0 {
                open.insert((*least, *to));
            }
        }
    }
    pull_down(boxes, &mut ranks);
    ranks
}

/// Boxes that nothing leads to go right above the first that they lead to.
fn pull_down(boxes: &Boxes, ranks: &mut [usize]) {
    let targets: BTreeSet<usize> = boxes.edges.iter().map(|edge| edge.1).collect();
    let mut lowest: BTreeMap<usize, usize> = BTreeMap::new();
    for (from, to, _) in &boxes.edges {
        let rank = ranks.get(*to).copied().unwrap_or(0);
        let entry = lowest.entry(*from).or_insert(rank);
        *entry = (*entry).min(rank);
    }
    for (from, rank) in lowest {
        if !targets.contains(&from)
            && let Some(own) = ranks.get_mut(from)
        {
            *own = rank.saturating_sub(1).max(*own);
        }
    }
}

/// Puts boxes into their layers, and waypoints where edges pass through one. Edges that leave one box share theirs, or
/// edges that lead to one, if those are more.
fn layered(boxes: &Boxes, ranks: &[usize]) -> Layered {
    let rank = |at: usize| ranks.get(at).copied().unwrap_or(0);
    let (mut leave, mut enter) = (BTreeMap::new(), BTreeMap::new());
    for (from, to, style) in &boxes.edges {
        *leave.entry((*from, *style)).or_insert(0_usize) += 1;
        *enter.entry((*to, *style)).or_insert(0_usize) += 1;
    }
    let mut found = Layered::default();
    let depth = ranks.iter().max().map_or(0, |last| last + 1);
    found.layers.resize_with(depth, Vec::new);
    let mut seen = BTreeSet::new();
    let mut put = |found: &mut Layered, vertex: Vertex, layer: usize| {
        if seen.insert(vertex)
            && let Some(layer) = found.layers.get_mut(layer)
        {
            layer.push(vertex);
        }
    };
    for at in depth_first(boxes) {
        put(&mut found, Vertex::Box(at), rank(at));
        for (from, to, style) in boxes.edges.iter().filter(|edge| edge.0 == at) {
            let leaves = leave.get(&(*from, *style)) >= enter.get(&(*to, *style));
            let mut last = Vertex::Box(*from);
            for layer in rank(*from) + 1..rank(*to) {
                let of = if leaves { *from } else { *to };
                let way = Vertex::Way { of, leaves, style: *style, layer };
                put(&mut found, way, layer);
                found.links.insert((last, way, *style));
                last = way;
            }
            if rank(*to) > rank(*from) {
                found.links.insert((last, Vertex::Box(*to), *style));
            }
        }
    }
    found
}

/// The boxes in an order in which what belongs together is found together.
fn depth_first(boxes: &Boxes) -> Vec<usize> {
    let count = boxes.sizes.len();
    let mut next = vec![Vec::new(); count];
    let targets: BTreeSet<usize> = boxes.edges.iter().map(|edge| edge.1).collect();
    for (from, to, _) in boxes.edges.iter().rev() {
        if let Some(next) = next.get_mut(*from) {
            next.push(*to);
        }
    }
    let mut seen = vec![false; count];
    let mut found = Vec::with_capacity(count);
    let firsts = (0..count).filter(|at| !targets.contains(at)).chain(0..count);
    for first in firsts {
        let mut open = vec![first];
        while let Some(at) = open.pop() {
            if seen.get_mut(at).is_some_and(|seen| !std::mem::replace(seen, true)) {
                found.push(at);
                open.extend(next.get(at).into_iter().flatten());
            }
        }
    }
    found
}

type Neighbours = BTreeMap<Vertex, Vec<Vertex>>;

/// Orders each layer so that few links cross: each vertex goes to the mean of those above, then of those below, and so on.
fn order(layered: &mut Layered) {
    let (mut above, mut below) = (Neighbours::new(), Neighbours::new());
    for (from, to, _) in &layered.links {
        above.entry(*to).or_default().push(*from);
        below.entry(*from).or_default().push(*to);
    }
    let mut best = layered.layers.clone();
    let mut least = crossings(&best, &below);
    let mut layers = best.clone();
    for sweep in 0..16 {
        if least == 0 && sweep > 1 {
            break;
        }
        let (neighbours, down) = if sweep % 2 == 0 { (&above, true) } else { (&below, false) };
        let depth = layers.len();
        for step in 1..depth {
            let (at, fixed) =
                if down { (step, step - 1) } else { (depth - 1 - step, depth - step) };
            let places: BTreeMap<Vertex, usize> = layers
                .get(fixed)
                .into_iter()
                .flatten()
                .enumerate()
                .map(|(place, vertex)| (*vertex, place))
                .collect();
            if let Some(layer) = layers.get_mut(at) {
                sort(layer, neighbours, &places);
            }
        }
        let now = crossings(&layers, &below);
        if now < least || sweep == 0 && now <= least {
            (best, least) = (layers.clone(), now);
        }
    }
    layered.layers = best;
}

/// Sorts a layer by the means of its neighbours' places; those without any stay where they are.
fn sort(layer: &mut Vec<Vertex>, neighbours: &Neighbours, places: &BTreeMap<Vertex, usize>) {
    let mean = |vertex: &Vertex, place: usize| {
        let near: Vec<usize> = neighbours
            .get(vertex)
            .into_iter()
            .flatten()
            .filter_map(|near| places.get(near).copied())
            .collect();
        match near.len() {
            0 => places::as_float(place),
            count => places::as_float(near.iter().sum::<usize>()) / places::as_float(count),
        }
    };
    let mut sorted: Vec<(f64, Vertex)> =
        layer.iter().enumerate().map(|(place, vertex)| (mean(vertex, place), *vertex)).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let is_way = |vertex: &Vertex| matches!(vertex, Vertex::Way { .. });
    layer.clear();
    for group in sorted.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
        // A way that boxes branch off from goes on in the middle of them.
        let boxes: Vec<Vertex> =
            group.iter().map(|entry| entry.1).filter(|vertex| !is_way(vertex)).collect();
        let (left, right) = boxes.split_at(boxes.len() / 2);
        layer.extend(left);
        layer.extend(group.iter().map(|entry| entry.1).filter(is_way));
        layer.extend(right);
    }
}

/// How many links cross.
fn crossings(layers: &[Vec<Vertex>], below: &Neighbours) -> u64 {
    let mut all = 0;
    for (upper, lower) in layers.iter().zip(layers.iter().skip(1)) {
        let places: BTreeMap<Vertex, usize> =
            lower.iter().enumerate().map(|(place, vertex)| (*vertex, place)).collect();
        // How many links end at or before each place, in a tree of sums.
        let mut sums = vec![0_u64; lower.len() + 1];
        let mut so_far = 0;
        for vertex in upper {
            let near = below.get(vertex).into_iter().flatten();
            let ends: Vec<usize> = near.filter_map(|near| places.get(near).copied()).collect();
            for end in &ends {
                let (mut at, mut left) = (end + 1, 0);
                while at > 0 {
                    left += sums.get(at).copied().unwrap_or(0);
                    at &= at - 1;
                }
                all += so_far - left;
            }
            for end in &ends {
                so_far += 1;
                let mut at = end + 1;
                while let Some(sum) = sums.get_mut(at) {
                    *sum += 1;
                    at += at & at.wrapping_neg();
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(count: usize, edges: &[(usize, usize)]) -> Boxes {
        let edges = edges.iter().map(|(from, to)| (*from, *to, 0)).collect();
        Boxes { sizes: vec![[100.0, 30.0]; count], edges }
    }

    #[test]
    fn each_edge_leads_to_a_later_layer() {
        let boxes = of(4, &[(0, 1), (1, 2), (0, 2), (2, 3), (0, 3)]);
        assert_eq!(ranks(&boxes), [0, 1, 2, 3]);
        let layered = layered(&boxes, &ranks(&boxes));
        let ways = layered.layers.iter().flatten().filter(|v| matches!(v, Vertex::Way { .. }));
        assert_eq!(ways.count(), 2, "the two long edges share their way");
    }

    #[test]
    fn what_nothing_leads_to_stands_right_above_what_it_leads_to() {
        assert_eq!(ranks(&of(4, &[(0, 1), (1, 2), (3, 2)])), [0, 1, 2, 1]);
    }

    #[test]
    fn many_boxes_side_by_side_are_put_into_several_layers() {
        let edges: Vec<_> = (1..199).flat_map(|at| [(0, at), (at, 199)]).collect();
        let ranks = ranks(&of(200, &edges));
        let longest = (0..20).map(|rank| ranks.iter().filter(|own| **own == rank).count()).max();
        assert_eq!(longest, Some(15));
        assert_eq!(ranks.iter().max(), Some(&ranks[199]));
    }

    #[test]
    fn crossings_are_counted_and_swept_away() {
        let boxes = of(4, &[(0, 3), (1, 2)]);
        let mut layered = layered(&boxes, &[0, 0, 1, 1]);
        layered.layers =
            vec![vec![Vertex::Box(0), Vertex::Box(1)], vec![Vertex::Box(2), Vertex::Box(3)]];
        let mut below = Neighbours::new();
        for (from, to, _) in &layered.links {
            below.entry(*from).or_default().push(*to);
        }
        assert_eq!(crossings(&layered.layers, &below), 1);
        order(&mut layered);
        assert_eq!(crossings(&layered.layers, &below), 0);
    }

    #[test]
    fn boxes_without_edges_are_packed_into_rows() {
        let laid = lay_out(&of(200, &[]));
        let [width, height] = laid.size;
        assert!(width < 2500.0 && height < 1200.0, "{width} by {height}");
    }

    fn overlap(a: ([f64; 2], [f64; 2]), b: ([f64; 2], [f64; 2])) -> bool {
        (0..2).all(|axis| a.0[axis] < b.0[axis] + b.1[axis] && b.0[axis] < a.0[axis] + a.1[axis])
    }

    proptest! {
        #[test]
        fn no_two_boxes_overlap_and_every_edge_leads_down(
            sizes in prop::collection::vec((8.0..300.0_f64, 8.0..120.0_f64), 1..30),
            pairs in prop::collection::vec((0_usize..30, 0_usize..30), 0..60),
        ) {
            let count = sizes.len();
            let edges: BTreeSet<_> = pairs
                .into_iter()
                .map(|(a, b)| (a % count, b % count))
                .filter(|(a, b)| a != b)
                .map(|(a, b)| (a.min(b), a.max(b), 0))
                .collect();
            let boxes = Boxes {
                sizes: sizes.iter().map(|(w, h)| [*w, *h]).collect(),
                edges: edges.iter().copied().collect(),
            };
            let laid = lay_out(&boxes);
            let all: Vec<_> = laid.corners.iter().copied().zip(boxes.sizes.iter().copied()).collect();
            for (nth, a) in all.iter().enumerate() {
                for b in &all[nth + 1..] {
                    prop_assert!(!overlap(*a, *b), "{a:?} {b:?}");
                }
                for axis in 0..2 {
                    prop_assert!(a.0[axis] >= -0.01 && a.0[axis] + a.1[axis] <= laid.size[axis] + 0.01);
                }
            }
            for (from, to, _) in &boxes.edges {
                prop_assert!(all[*from].0[1] + all[*from].1[1] < all[*to].0[1]);
            }
            for piece in &laid.pieces {
                prop_assert!(piece.from[1] <= piece.straight_to && piece.straight_to < piece.to[1]);
            }
            prop_assert_eq!(laid.pieces.iter().filter(|piece| piece.is_end).count() >= usize::from(!edges.is_empty()), true);
        }
    }
}
