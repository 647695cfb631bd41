//! A part of many cases that ask one question: the K-th of every N.

use std::ops::Range;
use std::str::FromStr;

/// The K-th of every N, written K/N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    k: usize,
    n: usize,
}

/// The variable that says which part of what devices in software compute the tests take.
const VARIABLE: &str = "ELINVAR_TEST_PART";

impl Part {
    /// Everything.
    pub const ALL: Part = Part { k: 1, n: 1 };

    /// The K-th of N, K from 1 on; `None` if there is no such part.
    pub fn new(k: usize, n: usize) -> Option<Part> {
        (1..=n).contains(&k).then_some(Part { k, n })
    }
    /// What `ELINVAR_TEST_PART` asks for; everything, if it is not set.
    ///
    /// # Panics
    /// If it is not a part.
    pub fn of_tests() -> Part {
        Self::of_variable(VARIABLE).unwrap_or(Part::ALL)
    }
    /// What a variable asks for, if it is set.
    ///
    /// # Panics
    /// If it is not a part.
    pub fn of_variable(name: &str) -> Option<Part> {
        let text = std::env::var(name).ok()?;
        Some(text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
    }
    /// Is it the first one, that with K = 1?
    pub fn is_first(self) -> bool {
        self.k == 1
    }
    /// Is a case at this place, from 0 on, one of the part?
    pub fn has(self, place: usize) -> bool {
        place % self.n == self.k - 1
    }
    /// This part of so many rounds: one range, as each round is another draw.
    pub fn rounds(self, of: usize) -> Range<usize> {
        of * (self.k - 1) / self.n..of * self.k / self.n
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Part, String> {
        let numbers = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
        numbers
            .and_then(|(k, n)| Part::new(k, n))
            .ok_or_else(|| "a part is K/N, with K from 1 to N".to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_everything_once() {
        for n in 1..6 {
            let parts: Vec<Part> = (1..=n).map(|k| Part::new(k, n).unwrap()).collect();
            for place in 0..20 {
                assert_eq!(parts.iter().filter(|p| p.has(place)).count(), 1, "{place} of {n}");
                let rounds: Vec<usize> = parts.iter().flat_map(|p| p.rounds(place)).collect();
                assert_eq!(rounds, (0..place).collect::<Vec<_>>(), "{n}");
            }
        }
    }

    #[test]
    fn what_is_no_part_is_refused() {
        for text in ["", "1", "0/3", "4/3", "1/0", "a/3", "-1/3"] {
            assert!(text.parse::<Part>().is_err(), "{text:?}");
        }
        assert_eq!("2/3".parse(), Ok(Part { k: 2, n: 3 }));
    }
}
