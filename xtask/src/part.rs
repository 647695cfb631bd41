//! Which part runs of what Vulkan devices and emulated ones compute, and of WebAssembly.
//!
//! Most of the time of all checks goes into kernels that are compiled and run without a GPU, for
//! thousands of cases that ask one question. `cargo xtask test` takes every third of these, with
//! cases of every op among them, and another third for another commit; WebAssembly, which takes
//! the compiler as long as the tests, it runs with the first third. `cargo xtask test all` takes
//! all, as do the tests and steps by themselves.

use crate::root;
use std::env;
use std::ops::Range;
use std::process::Command;

/// The variable that says it, as K/N, to the tests and to the steps.
pub(crate) const VARIABLE: &str = "ELINVAR_TEST_PART";

/// So many parts are everything.
const PARTS: usize = 3;

/// The K-th of N parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    k: usize,
    n: usize,
}

impl Part {
    /// Everything.
    pub(crate) const ALL: Part = Part { k: 1, n: 1 };

    /// What the variable asks for, if it is set.
    pub(crate) fn asked() -> Result<Option<Part>, String> {
        let Ok(text) = env::var(VARIABLE) else { return Ok(None) };
        let numbers = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
        match numbers {
            Some((k, n)) if (1..=n).contains(&k) => Ok(Some(Part { k, n })),
            _ => Err(format!("{VARIABLE} is {text}, not K/N with K from 1 to N")),
        }
    }
    /// What runs in a step: everything, if nothing else is asked for.
    pub(crate) fn of_step() -> Result<Part, String> {
        Ok(Part::asked()?.unwrap_or(Part::ALL))
    }
    /// A part for each commit; without Git, the first.
    pub(crate) fn of_commit() -> Part {
        let head = Command::new("git").current_dir(root()).args(["rev-parse", "HEAD"]).output();
        Part::of_hash(&head.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default())
    }
    /// By the first digits of a hash in base 16.
    fn of_hash(hash: &str) -> Part {
        let number = hash.get(..8).and_then(|digits| usize::from_str_radix(digits, 16).ok()).unwrap_or(0);
        Part { k: number % PARTS + 1, n: PARTS }
    }
    /// Has it the case at this place, from 0 on?
    pub(crate) fn has(self, place: usize) -> bool {
        place % self.n == self.k - 1
    }
    /// Its share of so many rounds.
    pub(crate) fn rounds(self, of: usize) -> Range<usize> {
        of * (self.k - 1) / self.n..of * self.k / self.n
    }
    /// As the variable has it.
    pub(crate) fn text(self) -> String {
        format!("{}/{}", self.k, self.n)
    }
    /// What `cargo xtask test` says of it.
    pub(crate) fn sentence(self) -> String {
        let Part { k, n } = self;
        match n {
            1 => "Vulkan, emulated devices, WebAssembly: everything".into(),
            _ => format!(
                "Vulkan, emulated devices, WebAssembly: part {k} of {n} ({VARIABLE}); all: cargo xtask test all"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_everything_once() {
        let parts = [1, 2, 3].map(|k| Part { k, n: 3 });
        for place in 0..20 {
            assert_eq!(parts.iter().filter(|p| p.has(place)).count(), 1, "{place}");
            let rounds: Vec<usize> = parts.iter().flat_map(|p| p.rounds(place)).collect();
            assert_eq!(rounds, (0..place).collect::<Vec<_>>());
        }
    }

    #[test]
    fn each_commit_has_a_part() {
        let of = |hash: &str| Part::of_hash(hash).text();
        assert_eq!([of("00000000aa"), of("00000001aa"), of("0000000baa")], ["1/3", "2/3", "3/3"]);
        assert_eq!(of(""), "1/3");
    }
}
