//! A grid of hexagons over a square: where many points lie, without drawing each of them.

/// Hexagons over `[low, high]²`, so many in a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HexGrid {
    low: f64,
    high: f64,
    columns: f64,
}

/// Height of a row of hexagons in widths of one.
const ROW: f64 = 0.866_025_403_784_438_6;

impl HexGrid {
    /// A grid over these ends; they may be the same.
    pub fn new((low, high): (f64, f64), columns: u32) -> Self {
        let (low, high) = if high > low { (low, high) } else { (low - 0.5, low + 0.5) };
        Self { low, high, columns: f64::from(columns.max(1)) }
    }

    pub const fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    pub fn width(&self) -> f64 {
        (self.high - self.low) / self.columns
    }

    /// The hexagon that holds a point: column and row.
    pub fn cell(&self, x: f64, y: f64) -> (i32, i32) {
        let (u, v) = ((x - self.low) / self.width(), (y - self.low) / self.width() / ROW);
        // The nearest centre is in one of the two nearest rows.
        let near = |row: f64| {
            let shift = if row.rem_euclid(2.0) < 0.5 { 0.0 } else { 0.5 };
            let column = (u - shift).round();
            let (du, dv) = (u - column - shift, (v - row) * ROW);
            (du.mul_add(du, dv * dv), (column as i32, row as i32))
        };
        let (below, above) = (near(v.floor()), near(v.ceil()));
        if below.0 <= above.0 { below.1 } else { above.1 }
    }

    /// The middle of a hexagon.
    pub fn centre(&self, (column, row): (i32, i32)) -> (f64, f64) {
        let shift = if row.rem_euclid(2) == 0 { 0.0 } else { 0.5 };
        let x = (f64::from(column) + shift).mul_add(self.width(), self.low);
        (x, (f64::from(row) * ROW).mul_add(self.width(), self.low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_fall_into_the_nearest_hexagon() {
        let grid = HexGrid::new((-2.0, 3.0), 20);
        for i in 0..50 {
            for j in 0..50 {
                let (x, y) = (-2.0 + 0.1 * f64::from(i) + 0.013, -2.0 + 0.1 * f64::from(j) + 0.007);
                let (cx, cy) = grid.centre(grid.cell(x, y));
                // No point is farther from its centre than a corner.
                assert!((x - cx).hypot(y - cy) <= grid.width() * 0.5774, "{x} {y}");
            }
        }
        let narrow = HexGrid::new((1.0, 1.0), 10);
        assert_eq!(narrow.ends(), (0.5, 1.5));
    }
}
