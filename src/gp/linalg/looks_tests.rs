//! Both ways to look, against a plain loop.

use super::*;
use crate::gp::linalg::grids::{BLOCKS, GridPoints, LOOK, PointGrid, looks};

// Numbers that look random, the same every time.
fn numbers(count: usize) -> impl Iterator<Item = f64> {
    (0..count as u64).map(|i| {
        let z = i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((z ^ (z >> 32)) >> 11) as f64 / (1_u64 << 53) as f64
    })
}

#[test]
fn both_ways_to_look_find_what_a_plain_loop_finds() {
    for (d, n) in [(3, 5), (8, 128), (16, 100), (30, 256), (47, 200)] {
        let points: Vec<Vec<f64>> = numbers(n * d).collect::<Vec<_>>().chunks(d).map(<[f64]>::to_vec).collect();
        let width = looks(d) * LOOK;
        let mut middle = vec![0.0; width];
        middle[..d].fill(0.5);
        let grid = PointGrid { middle, step: 1.0 / 1024.0, error: (d as f32).sqrt() / 2048.0 };
        let mut placed = GridPoints::default();
        let ids: Vec<u32> = (0..n as u32).collect();
        for some in ids.chunks(SIDE) {
            placed.push(some, d, |i, j| grid.place(points[some[i] as usize][j], j));
        }
        while !placed.ids().len().is_multiple_of(BLOCKS) {
            placed.push(&[], d, |_, _| 0);
        }
        let leaf = placed.of(0..placed.ids().len(), d);
        for (far, own) in [(false, 0.4), (false, 1.7), (false, 0.0), (true, 40.0), (true, f32::NAN)] {
            let query: Vec<f32> = (0..width).map(|j| if j < d { own + 0.01 * j as f32 } else { 0.0 }).collect();
            let mut on_grid = GridQuery::default();
            on_grid.put_on(&grid, &query, 0.0);
            let distance = |point: &Vec<f64>| -> f64 {
                point.iter().zip(&query).map(|(x, own)| (x - f64::from(*own)).powi(2)).sum()
            };
            let mut all: Vec<(f64, u32)> = points.iter().map(distance).zip(0..).collect();
            all.retain(|(_, id)| *id < 170 && *id != 7);
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            for count in [1, 5, 60] {
                let wanted: Vec<u32> = all.iter().take(count).map(|(_, id)| *id).collect();
                let found = [look, look_plainly].map(|way| {
                    let mut near = NearCandidates::default();
                    near.clear(count, (170, 7), 0.0, d, 0.0);
                    let is_near = way(&on_grid, leaf, &mut near);
                    near.keep_nearest(0);
                    (is_near, near.ids().to_vec())
                });
                assert_eq!(found[0], found[1], "{d} {count}");
                let (is_near, found) = &found[0];
                assert_eq!(*is_near, !far, "{d} {own}");
                if *is_near {
                    assert!(wanted.iter().all(|id| found.contains(id)), "{d} {count}: {found:?}");
                    assert!(found.len() <= wanted.len() + 8, "{d} {count}: {found:?}");
                    assert!(found.iter().all(|id| *id < 170 && *id != 7));
                } else {
                    assert!(found.is_empty());
                }
            }
        }
    }
}

fn look_plainly(query: &GridQuery, leaf: LeafPoints<'_>, near: &mut NearCandidates) -> bool {
    if query.is_near {
        look_anywhere(query, leaf, near);
    }
    query.is_near
}
