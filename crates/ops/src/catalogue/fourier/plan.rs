//! Of which levels a transform of a length is made.

/// The largest level. A level of a prime p costs 4 p multiplications an element; beyond this two
/// transforms of a length above 2 p cost no more.
pub const MAX_RADIX: usize = 61;

/// How a transform of some length runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Levels of these primes, which multiply to the length: odd ones, the largest first, then
    /// twos. None for length 1.
    Levels(Vec<usize>),
    /// A convolution by transforms of this length, a power of two or three times one.
    Bluestein(usize),
}

/// The plan for length `n`, which is not 0.
pub fn plan(n: usize) -> Plan {
    let twos = n.trailing_zeros() as usize;
    let mut levels = odd_primes(n >> twos);
    if levels.first().is_some_and(|&p| p > MAX_RADIX) {
        return Plan::Bluestein(convolution(2 * n - 1));
    }
    levels.extend(std::iter::repeat_n(2, twos));
    Plan::Levels(levels)
}

/// The prime factors of an odd number, largest first.
fn odd_primes(mut n: usize) -> Vec<usize> {
    let mut all = Vec::new();
    let mut p = 3;
    while p * p <= n {
        while n.is_multiple_of(p) {
            all.push(p);
            n /= p;
        }
        p += 2;
    }
    if n > 1 {
        all.push(n);
    }
    all.reverse();
    all
}

/// The smallest power of two, or three times one, from `least` on.
fn convolution(least: usize) -> usize {
    let two = least.next_power_of_two();
    if two / 4 * 3 >= least { two / 4 * 3 } else { two }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        let of = |n| match plan(n) {
            Plan::Levels(all) => all,
            Plan::Bluestein(m) => vec![0, m],
        };
        for (n, levels) in [
            (1, vec![]),
            (2, vec![2]),
            (7, vec![7]),
            (64, vec![2; 6]),
            (61, vec![61]),
            (67, vec![0, 192]),
            (90, vec![5, 3, 3, 2]),
            (1000, vec![5, 5, 5, 2, 2, 2]),
            (53 * 53, vec![53, 53]),
            (97, vec![0, 256]),
            (997, vec![0, 2048]),
        ] {
            assert_eq!(of(n), levels, "{n}");
        }
    }

    #[test]
    fn levels_multiply_to_the_length() {
        for n in 1..5000 {
            match plan(n) {
                Plan::Levels(all) => {
                    assert_eq!(all.iter().product::<usize>(), n);
                    assert!(all.iter().all(|&r| r <= MAX_RADIX), "{n}: {all:?}");
                }
                Plan::Bluestein(m) => {
                    assert!(m >= 2 * n - 1 && m < 4 * n, "{n}: {m}");
                    assert!(matches!(plan(m), Plan::Levels(_)), "{n}: {m}");
                }
            }
        }
    }
}
