//! A matrix as libraries of products have it: by columns.

/// A matrix as the library has it: rows, columns, how far apart columns are, and matrices of a
/// batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    pub rows: usize,
    pub columns: usize,
    pub leading: i64,
    pub batch: i64,
    pub transposed: bool,
}

impl Stored {
    /// A factor of sizes [down, across] whose neighbours are so far apart: as it is, if elements
    /// are contiguous downwards, else transposed.
    pub fn of([down, across]: [usize; 2], [batch, along_down, along_across]: [i64; 3]) -> Option<Stored> {
        let wide = |rows: usize, columns: usize, leading: i64| {
            // Of one column, the distance to the next does not matter.
            if columns == 1 { rows as i64 } else { leading }
        };
        let fits = |side_by_side: i64, rows: usize, columns: usize, leading: i64| {
            let leading = wide(rows, columns, leading);
            ((side_by_side == 1 || rows == 1) && leading >= rows as i64).then_some((rows, columns, leading))
        };
        let plain = fits(along_down, down, across, along_across).map(|s| (s, false));
        let transposed_layout = || fits(along_across, across, down, along_down).map(|s| (s, true));
        let ((rows, columns, leading), transposed) = plain.or_else(transposed_layout)?;
        (batch >= 0).then_some(Stored { rows, columns, leading, batch, transposed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_is_stored_by_columns() {
        let stored =
            |sizes, strides| Stored::of(sizes, strides).map(|s| (s.rows, s.columns, s.leading, s.transposed));
        // w of [k = 4, n = 6], row-major, seen as [n, k]: its rows are contiguous downwards.
        assert_eq!(stored([6, 4], [0, 1, 6]), Some((6, 4, 6, false)));
        // Each row a part of a longer one.
        assert_eq!(stored([6, 4], [24, 1, 10]), Some((6, 4, 10, false)));
        // w of [n, k] row-major.
        assert_eq!(stored([6, 4], [24, 4, 1]), Some((4, 6, 4, true)));
        // One row, one column.
        assert_eq!(stored([1, 4], [0, 9, 1]), Some((1, 4, 1, false)));
        assert_eq!(stored([6, 1], [0, 1, 0]), Some((6, 1, 6, false)));
        // Every second element; backwards; the same row again and again; a batch backwards.
        assert_eq!(stored([6, 4], [0, 2, 12]), None);
        assert_eq!(stored([6, 4], [0, -1, 6]), None);
        assert_eq!(stored([6, 4], [0, 1, 0]), None);
        assert_eq!(stored([6, 4], [-24, 1, 6]), None);
    }
}
