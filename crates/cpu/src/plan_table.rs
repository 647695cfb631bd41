//! Tables of plans, whose fields are separated by tabs: in `*.tsv` each line is a problem, the
//! machines that it is for, and their plan ([`check`]); in `*.txt` below each problem stand lines
//! of machines and a plan ([`compare`]).
//!
//! The lines were recorded from runs. A line that has to change says which problems take another
//! path.

use crate::machine::Machine;
use std::fmt::Debug;
use std::str::FromStr;

/// `2x3x9`; `-` is none.
pub(crate) fn sizes<T: FromStr<Err: Debug>>(text: &str) -> Vec<T> {
    let one = |n: &str| n.parse().expect("a number");
    if text == "-" { Vec::new() } else { text.split('x').map(one).collect() }
}

/// `avx2:1,2,8 avx512:1`: names, each with numbers of threads.
fn machines(text: &str) -> Vec<Machine> {
    let one = |text: &str| {
        let (name, threads) = text.split_once(':').expect("name:threads");
        threads.split(',').map(|threads| Machine::named(&format!("{name}:{threads}"))).collect::<Vec<_>>()
    };
    text.split(' ').flat_map(one).collect()
}

/// Compares all plans of a table with those that `plan` makes of a line's first fields.
pub(crate) fn check(table: &str, plan: impl Fn(&[&str], &Machine) -> String) {
    let mut wrong = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<_> = line.split('\t').collect();
        let [problem @ .., on, expected] = &fields[..] else { panic!("too few fields: {line}") };
        for machine in machines(on) {
            let plan = plan(problem, &machine);
            if plan != *expected {
                wrong.push(format!("{line}\n  with {} threads: {plan}", machine.threads));
            }
        }
    }
    assert!(wrong.is_empty(), "{} plans differ:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
}

/// Compares a table: lines of problems, and below each one lines of processors and a path.
pub(crate) fn compare(table: &str, path: impl Fn(&[&str], &Machine) -> String) {
    let (mut problem, mut count, mut wrong) = (vec![], 0, vec![]);
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let Some((machines, want)) = line.strip_prefix('\t').and_then(|line| line.split_once('\t')) else {
            problem = line.split('\t').collect();
            continue;
        };
        for name in machines.split(' ') {
            let got = path(&problem, &Machine::named(name));
            count += 1;
            if got != want {
                wrong.push(format!("{problem:?} on {name}:\n  got  {got}\n  want {want}"));
            }
        }
    }
    assert!(count > 0, "the table is empty");
    assert!(wrong.is_empty(), "{} of {count} plans differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Numbers with commas between them.
pub(crate) fn numbers<N: FromStr>(list: &str) -> Vec<N> {
    list.split(',').map(|n| n.parse().ok().expect("numbers")).collect()
}
