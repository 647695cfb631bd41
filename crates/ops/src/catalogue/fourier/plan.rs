//! Which products a transform of a length is made of.

/// The largest transform that is one product: beyond it the work of a product, which grows with the
/// square, outweighs the pass over memory that another radix costs.
pub const MAX_RADIX: usize = 64;

/// How a transform of some length runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Products of these sizes, the first over the elements that are furthest apart.
    Radices(Vec<usize>),
    /// A convolution by transforms of this length, whose prime factors are 2, 3 and 5.
    Bluestein(usize),
}

/// The plan for length `n`, which is not 0.
pub fn plan(n: usize) -> Plan {
    match radices(n) {
        Some(all) => Plan::Radices(all),
        None => Plan::Bluestein(smooth(2 * n - 1)),
    }
}

/// The prime factors, largest first.
fn primes(mut n: usize) -> Vec<usize> {
    let mut all = Vec::new();
    let mut p = 2;
    while p * p <= n {
        while n.is_multiple_of(p) {
            all.push(p);
            n /= p;
        }
        p += 1;
    }
    if n > 1 {
        all.push(n);
    }
    all.sort_unstable_by(|a, b| b.cmp(a));
    all
}

/// As few factors as possible, of similar size, none above [`MAX_RADIX`]; `None` if a prime factor
/// is.
fn radices(n: usize) -> Option<Vec<usize>> {
    let primes = primes(n);
    if primes.first().is_some_and(|&p| p > MAX_RADIX) {
        return None;
    }
    let mut count = 1;
    while MAX_RADIX.checked_pow(count).is_some_and(|most| most < n) {
        count += 1;
    }
    (count as usize..).find_map(|count| {
        let mut groups = vec![1usize; count];
        for &p in &primes {
            let least = groups.iter_mut().min()?;
            *least *= p;
        }
        groups.sort_unstable_by(|a, b| b.cmp(a));
        groups.retain(|&g| g > 1 || n == 1);
        groups.truncate(if n == 1 { 1 } else { groups.len() });
        groups.iter().all(|&g| g <= MAX_RADIX).then_some(groups)
    })
}

/// The smallest number from `least` on whose prime factors are 2, 3 and 5.
fn smooth(least: usize) -> usize {
    let mut best = least.next_power_of_two();
    let mut five = 1;
    while five < best {
        let mut three = five;
        while three < best {
            let twos = least.div_ceil(three).next_power_of_two();
            best = best.min(three * twos);
            three *= 3;
        }
        five *= 5;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        let of = |n| match plan(n) {
            Plan::Radices(all) => all,
            Plan::Bluestein(m) => vec![0, m],
        };
        for (n, radices) in [
            (1, vec![1]),
            (2, vec![2]),
            (7, vec![7]),
            (64, vec![64]),
            (61, vec![61]),
            (67, vec![0, 135]),
            (100, vec![10, 10]),
            (128, vec![16, 8]),
            (1024, vec![32, 32]),
            (4096, vec![64, 64]),
            (1 << 20, vec![32; 4]),
            (53 * 53, vec![53, 53]),
            (101, vec![0, 216]),
        ] {
            assert_eq!(of(n), radices, "{n}");
        }
    }

    #[test]
    fn radices_multiply_to_the_length() {
        for n in 1..5000 {
            match plan(n) {
                Plan::Radices(all) => {
                    assert_eq!(all.iter().product::<usize>(), n);
                    assert!(all.iter().all(|&r| r <= MAX_RADIX), "{n}: {all:?}");
                }
                Plan::Bluestein(m) => {
                    assert!(m >= 2 * n - 1 && matches!(plan(m), Plan::Radices(_)), "{n}: {m}");
                }
            }
        }
    }
}
