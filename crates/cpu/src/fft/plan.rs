//! How transforms run: which lines go side by side, and which are cut.

use super::tables::Levels;

/// What lanes of registers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Different lines.
    Lines,
    /// Elements of one line: so many levels, whose product is `first`, then the others.
    Within {
        /// How many.
        levels: usize,
        /// Their product.
        first: usize,
    },
}

/// Nanoseconds for a number of a result and a level.
pub(super) const NS_PER_LEVEL: f64 = 0.1;
/// Numbers that a task has at least: less is not worth asking for.
pub(super) const MIN_PIECE: usize = 1 << 12;

/// Elements up to which lines go side by side, if there are enough: as many registers as a
/// first-level cache has, so that nothing is turned between levels.
const MAX_ABREAST: usize = 256;

/// The cut of `rows` transforms with these levels for registers of so many lanes: both parts fill a
/// register, and are of similar size.
pub(super) fn cut<T>(levels: &Levels<T>, lanes: usize, rows: usize) -> Cut {
    of_radices(levels.all.iter().map(|level| level.radix), levels.n, [lanes, rows])
}

fn of_radices(radices: impl Iterator<Item = usize>, n: usize, [lanes, rows]: [usize; 2]) -> Cut {
    if n <= MAX_ABREAST && rows >= lanes {
        return Cut::Lines;
    }
    let products = radices.scan(1, |product, radix| {
        *product *= radix;
        Some(*product)
    });
    let fits = products.enumerate().filter(|&(_, first)| first >= lanes && n / first >= lanes);
    match fits.min_by_key(|&(_, first)| first.max(n / first)) {
        Some((i, first)) => Cut::Within { levels: i + 1, first },
        None => Cut::Lines,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts() {
        for (radices, lanes, want) in [
            (&[][..], [16, 1], Cut::Lines),
            (&[2, 2, 2, 2], [16, 1], Cut::Lines),
            (&[2, 2, 2, 2], [4, 1], Cut::Within { levels: 2, first: 4 }),
            (&[2, 2, 2, 2], [4, 4], Cut::Lines),
            (&[2; 10], [16, 1], Cut::Within { levels: 5, first: 32 }),
            (&[5, 5, 5, 2, 2, 2], [16, 1], Cut::Within { levels: 2, first: 25 }),
            (&[5, 5, 5, 2, 2, 2], [64, 1], Cut::Lines),
            (&[61, 2, 2], [8, 1], Cut::Lines),
            (&[61, 2, 2, 2], [8, 1], Cut::Within { levels: 1, first: 61 }),
        ] {
            assert_eq!(
                of_radices(radices.iter().copied(), radices.iter().product(), lanes),
                want,
                "{radices:?}"
            );
        }
    }
}
