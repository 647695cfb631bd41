//! Single ops of every kind, called by name: `ops.jsonl`, which `tools/peers/torch_ops.py` reads,
//! too.
//!
//! A line of the file is an op with its operands by role and its attributes. An operand is
//! `SIZES [DTYPE] [RANGE]`: floats are uniform in -1..1, or in 0.1..1 with the range `>0`; integers
//! are in `A..B`, or from 0 on in `<B`. `gradient` names the operands of a second row, which
//! computes the op and its gradients by these, with gradients of ones. `flops`, if given, are the
//! operations of the op; with `fast` a further row is done with [`Precision::Fast`].

use crate::data::Data;
use crate::harness::done;
use crate::row::{Group, Row};
use elinvar::ops::args::Args;
use elinvar::{Any, Backward, DType, Device, Precision, Result, Tensor, backward};
use elinvar_conformance::execute::by_name;
use elinvar_conformance::index::attr;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::rc::Rc;

const FILE: &str = include_str!("../../ops.jsonl");

/// A line of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    op: String,
    /// The row's label among rows of this op.
    shape: String,
    /// Operands by role.
    #[serde(rename = "in")]
    operands: BTreeMap<String, String>,
    #[serde(default)]
    attrs: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    gradient: Vec<String>,
    #[serde(default)]
    flops: usize,
    #[serde(default)]
    fast: bool,
}

/// The values of an operand.
enum Values {
    Any,
    Positive,
    Whole(i64, i64),
}

/// An operand, as described by its text.
struct Operand {
    role: String,
    sizes: Vec<usize>,
    dtype: DType,
    values: Values,
}

impl Operand {
    /// `None` if the text is not in the file's format.
    fn parse(role: &str, text: &str) -> Option<Operand> {
        let mut words = text.split(' ').peekable();
        let sizes = words.next()?.split('x').map(|n| n.parse().ok()).collect::<Option<_>>()?;
        let dtype = words.peek().and_then(|word| DType::parse(word));
        if dtype.is_some() {
            words.next();
        }
        let values = match words.next() {
            None => Values::Any,
            Some(">0") => Values::Positive,
            Some(range) => match (range.strip_prefix('<'), range.split_once("..")) {
                (Some(end), _) => Values::Whole(0, end.parse().ok()?),
                (None, Some((start, end))) => Values::Whole(start.parse().ok()?, end.parse().ok()?),
                (None, None) => return None,
            },
        };
        let whole = words.next().is_none();
        whole.then(|| Operand { role: role.into(), sizes, dtype: dtype.unwrap_or(DType::F32), values })
    }
    fn tensor(&self, data: &mut Data<Device>) -> Tensor {
        let Operand { sizes, dtype, values, .. } = self;
        let (numbers, device) = (&mut data.generator, &data.device);
        match *values {
            Values::Whole(start, end) => numbers.randint(start, end, sizes, *dtype, device),
            Values::Positive => numbers.uniform(0.1, 1.0, sizes, *dtype, device),
            Values::Any if *dtype == DType::Bool => numbers.bernoulli(0.5, sizes, *dtype, device),
            Values::Any => numbers.uniform(-1.0, 1.0, sizes, *dtype, device),
        }
    }
}

/// The call of a line.
struct Call {
    operands: Vec<Operand>,
    gradient: Vec<String>,
    /// Without operands.
    args: Args<Tensor>,
}

impl Call {
    fn new(line: &Line) -> Option<Call> {
        let operands = line.operands.iter().map(|(role, text)| Operand::parse(role, text));
        let attrs = line.attrs.iter().map(|(name, v)| Some((name.clone(), attr(v).ok()?)));
        let args = Args { op: line.op.clone(), inputs: Vec::new(), attrs: attrs.collect::<Option<_>>()? };
        Some(Call { operands: operands.collect::<Option<_>>()?, gradient: line.gradient.clone(), args })
    }
    /// That of the first float operand, in the order of the roles' names, if there is one.
    fn dtype(&self) -> DType {
        let mut dtypes = self.operands.iter().map(|o| o.dtype);
        dtypes.clone().find(|d| d.is_float()).or_else(|| dtypes.next()).unwrap_or(DType::F32)
    }
    /// With operands; those whose gradients are wanted are variables, if `gradients` is set.
    fn with_operands(&self, data: &mut Data<Device>, gradients: bool) -> Args<Tensor> {
        let operands = self.operands.iter().map(|o| {
            let x = o.tensor(data);
            let is_variable = gradients && self.gradient.contains(&o.role);
            (o.role.clone(), if is_variable { x.requires_grad() } else { x })
        });
        Args { inputs: operands.collect(), ..self.args.clone() }
    }
}

fn forward(args: &Args<Tensor>) -> Result<()> {
    by_name(args)?.iter().try_for_each(done)
}

fn both(args: &Args<Tensor>, ones: &[Tensor]) -> Result<()> {
    let results = by_name(args)?;
    let tracked = results.iter().filter(|y| y.is_tracked());
    let pairs: Vec<_> = tracked.zip(ones).map(|(y, one)| (y, Some(one))).collect();
    let gradients = backward::<Any>(&pairs, Backward::default())?;
    results.iter().try_for_each(done)?;
    args.inputs.iter().filter_map(|(_, x)| gradients.get(x)).try_for_each(done)
}

/// Of ones, for the results of this call that have gradients.
fn ones(args: &Args<Tensor>) -> Vec<Tensor> {
    let results = by_name(args).unwrap_or_default();
    results.iter().filter(|y| y.is_tracked()).map(Tensor::ones_like).collect()
}

pub(super) fn rows() -> Vec<Row> {
    let row = |text: &str| {
        let line: Line = serde_json::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let call = Rc::new(Call::new(&line).unwrap_or_else(|| panic!("{text}: an operand or an attribute")));
        let dtype = call.dtype();
        let gradients = !line.gradient.is_empty();
        let (one, quick) = (Rc::clone(&call), Rc::clone(&call));
        let forwards = Row::new(Group::Ops, &*line.op, &*line.shape, dtype, move |data| {
            let args = one.with_operands(data, false);
            move || forward(&args)
        });
        let both = Row::new(Group::Ops, format!("{}_fb", line.op), &*line.shape, dtype, move |data| {
            let args = call.with_operands(data, true);
            let ones = ones(&args);
            move || both(&args, &ones)
        });
        let fast = Row::new(Group::Ops, format!("{}_fast", line.op), &*line.shape, dtype, move |data| {
            let args = quick.with_operands(data, false);
            move || Precision::Fast.scope(|| forward(&args))
        });
        let rows = [
            Some(forwards.flops(line.flops)),
            gradients.then(|| both.flops(3 * line.flops).recorded()),
            line.fast.then(|| fast.flops(line.flops)),
        ];
        rows.into_iter().flatten()
    };
    FILE.lines().flat_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar::ops::catalogue;

    #[test]
    fn operands_are_read_as_they_are_written() {
        let read = |text| Operand::parse("x", text).map(|o| (o.sizes, o.dtype));
        for (text, want) in [
            ("3", Some((vec![3], DType::F32))),
            ("2x3 f16", Some((vec![2, 3], DType::F16))),
            ("2x3 >0", Some((vec![2, 3], DType::F32))),
            ("4 i64 <9", Some((vec![4], DType::I64))),
            ("4 i64 1..9", Some((vec![4], DType::I64))),
            ("4 bool", Some((vec![4], DType::Bool))),
            ("", None),
            ("2x", None),
            ("2 f99", None),
            ("2 >1", None),
            ("2 <", None),
            ("2 >0 f16", None),
        ] {
            assert_eq!(read(text), want, "{text}");
        }
    }

    fn calls() -> Vec<(Line, Call)> {
        let call = |text: &str| {
            let line: Line = serde_json::from_str(text).unwrap();
            let call = Call::new(&line).expect(text);
            (line, call)
        };
        FILE.lines().map(call).collect()
    }

    #[test]
    fn every_line_is_an_op_that_there_is() {
        for (line, call) in calls() {
            assert!(catalogue::NAMES.contains(&&*line.op), "{}", line.op);
            let is_there =
                |role: &String| call.operands.iter().any(|o| o.role == *role && o.dtype.is_float());
            assert!(line.gradient.iter().all(is_there), "{} {}", line.op, line.shape);
        }
    }

    /// Those with few elements: the others take minutes in a debug build.
    #[test]
    fn lines_with_few_numbers_run() {
        const FEW: usize = 60_000;
        let mut data = Data::new(Device::cpu());
        let mut ran = 0;
        for (line, call) in calls() {
            let numbers: usize = call.operands.iter().map(|o| o.sizes.iter().product::<usize>()).sum();
            if numbers > FEW {
                continue;
            }
            forward(&call.with_operands(&mut data, false)).expect(&line.op);
            if !line.gradient.is_empty() {
                let args = call.with_operands(&mut data, true);
                both(&args, &ones(&args)).expect(&line.op);
            }
            ran += 1;
        }
        assert!(ran >= 7, "{ran} lines ran");
    }
}
