//! Which cases run.

use crate::index::{Entry, Index};
use elinvar_ops::catalogue::NAMES;

/// Names of ops and parts of case ids; an empty list selects everything.
#[derive(Clone, Debug, Default)]
pub struct Filter(Vec<String>);

impl Filter {
    /// From the command line. The name of an op selects that op alone (`add`, and not `addmm`);
    /// anything else selects every case whose id contains it (`soft`, `strided`, `softmax/03`).
    pub fn new(only: &[String]) -> Self {
        Filter(only.to_vec())
    }
    /// The cases that run, in the order of the index.
    pub fn select<'a>(&self, index: &'a Index) -> Vec<&'a Entry> {
        // An op may have its cases in another index.
        let is_op = |f: &String| NAMES.contains(&f.as_str()) || index.cases.iter().any(|e| e.op == *f);
        let asked: Vec<(&String, bool)> = self.0.iter().map(|f| (f, is_op(f))).collect();
        let takes = |e: &&Entry| {
            let one = |&(f, op): &(&String, bool)| if op { e.op == *f } else { e.id.contains(f.as_str()) };
            asked.is_empty() || asked.iter().any(one)
        };
        index.cases.iter().filter(takes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ops_name_means_that_op_and_anything_else_a_part_of_the_id() {
        let entry = |id: &str| {
            format!(
                r#"{{"op":"{}","id":"{id}","dtype":"F32","attrs":{{}},"roles":[],"inputs":[],"views":{{}},"diff":[],
                "outputs":[],"out_dtypes":[],"grad_outputs":[],"grads":[],"rtol":[],"atol":[],"tags":[]}}"#,
                id.split('/').next().unwrap()
            )
        };
        let ids = [
            "add/00-basic",
            "add/01-strided",
            "addmm/00-basic",
            "softmax/00-basic",
            "log_softmax/03-strided",
        ];
        let text = format!(r#"{{"format":1,"cases":[{}]}}"#, ids.map(entry).join(","));
        let index = crate::index::parse(text.as_bytes(), "test").unwrap();
        for (only, want) in [
            (&[][..], &[0, 1, 2, 3, 4][..]),
            (&["add"], &[0, 1]),
            (&["addm"], &[2]),
            (&["softmax"], &[3]),
            (&["soft"], &[3, 4]),
            (&["strided"], &[1, 4]),
            (&["add/01", "softmax"], &[1, 3]),
            (&["nothing"], &[]),
        ] {
            let only: Vec<String> = only.iter().map(|s| s.to_string()).collect();
            let taken: Vec<&str> = Filter::new(&only).select(&index).iter().map(|e| e.id.as_str()).collect();
            let want: Vec<&str> = want.iter().map(|&i| ids[i]).collect();
            assert_eq!(taken, want, "{only:?}");
        }
    }
}
