//! Autocast: the type of every op's result is that of the table, the table is PyTorch's and the
//! documents', and a training with it has the same bits on two backends.

use elinvar_conformance::execute::by_name;
use elinvar_conformance::filter::Filter;
use elinvar_conformance::golden::Case;
use elinvar_conformance::sample;
use elinvar_core::{DType, Result};
use elinvar_devices::{Any, Device};
use elinvar_nn::data::{Digits, digits};
use elinvar_nn::layers::PReLU;
use elinvar_nn::loader::{Loader, Pairs};
use elinvar_nn::loss::{
    Reduction, cosine_embedding_loss, margin_ranking_loss, multi_margin_loss, poisson_nll_loss,
    soft_margin_loss,
};
use elinvar_nn::models::{DigitsCnn, DigitsMlp, DigitsTransformer, digit_pairs};
use elinvar_nn::optim::AdamW;
use elinvar_nn::train::{Classification, Trainer};
use elinvar_nn::{Generator, Layer, Module};
use elinvar_ops::args::Args;
use elinvar_ops::autocast::{Rule, TABLE, rule};
use elinvar_ops::catalogue;
use elinvar_ops::catalogue::pad::Mode;
use elinvar_tensor::{Tensor, autocast};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What PyTorch gives, see `tools/golden/autocast.py`.
const TORCH: &str = include_str!("../../golden-own/autocast.json");
const DOCUMENT: &str = include_str!("../../../../docs/reference/autocast.md");

const HALVES: [DType; 2] = [DType::BF16, DType::F16];

/// The types of an op's float operands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Operands {
    Single,
    Half,
    /// The first in 16 bits, the others in f32.
    Mixed,
}

const ALL: [Operands; 3] = [Operands::Single, Operands::Half, Operands::Mixed];

impl Operands {
    /// The type of float operand `i`.
    fn dtype(self, i: usize, half: DType) -> DType {
        match self {
            Operands::Single => DType::F32,
            Operands::Half => half,
            Operands::Mixed if i == 0 => half,
            Operands::Mixed => DType::F32,
        }
    }
}

/// A row of PyTorch's: the type of the result for each kind of operands.
#[derive(Debug, Deserialize)]
struct Torch {
    op: String,
    f32: Option<String>,
    half: Option<String>,
    mixed: Option<String>,
}

impl Torch {
    fn all() -> Vec<Torch> {
        serde_json::from_str(TORCH).unwrap()
    }
    fn gives(&self, operands: Operands, half: DType) -> Option<DType> {
        let word = match operands {
            Operands::Single => &self.f32,
            Operands::Half => &self.half,
            Operands::Mixed => &self.mixed,
        };
        word.as_ref().map(|w| if w == "half" { half } else { DType::F32 })
    }
}

/// The cases of f32 of every op.
fn cases() -> Vec<Case> {
    let all = sample::cases(&Filter::default()).unwrap();
    all.into_iter().filter(|c| catalogue::NAMES.contains(&c.op.as_str()) && c.dtype == DType::F32).collect()
}

fn floats(case: &Case) -> usize {
    case.inputs.iter().filter(|i| i.tensor.dtype().is_float()).count()
}

/// The types of the float results of a case's op in a scope. A result that depends on a variable
/// can be differentiated, and gives a gradient of the variable's type.
fn run(case: &Case, operands: Operands, half: DType) -> Result<Vec<DType>> {
    let device = Device::reference();
    let (mut inputs, mut variables) = (vec![], vec![]);
    for (i, input) in case.inputs.iter().enumerate() {
        let mut x = Tensor::<Any>::from_host(input.tensor.clone(), &device)?;
        if x.dtype().is_float() {
            let before = case.inputs[..i].iter().filter(|i| i.tensor.dtype().is_float()).count();
            x = x.to_dtype(operands.dtype(before, half));
            if case.grads.iter().any(|g| g.input == i) {
                x = x.requires_grad();
                variables.push(x.clone());
            }
        }
        inputs.push((input.role.clone(), x));
    }
    let args = Args { op: case.op.clone(), inputs, attrs: case.attrs.clone() };
    let all = autocast(half, || by_name(&args))?;
    if let Some(y) = all.iter().find(|y| y.is_tracked() && y.numel() > 0) {
        let gradients = y.sum().try_backward()?;
        for x in &variables {
            assert!(
                gradients.get(x).is_none_or(|g| (g.dtype(), g.dims()) == (x.dtype(), x.dims())),
                "{}",
                case.id
            );
        }
    }
    Ok(all.iter().map(Tensor::dtype).filter(|d| d.is_float()).collect())
}

/// Ops that refuse operands of two types, as PyTorch does.
const REFUSE: &[&str] = &[
    "heaviside",
    "histogram",
    "index_add",
    "index_copy",
    "index_put",
    "index_reduce",
    "isin",
    "masked_scatter",
    "put",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "searchsorted",
];
/// Ops whose results are not of one type: what is asked for, each as its operand, or by the power.
const OWN: &[&str] = &["cast", "matrix_power", "meshgrid"];

/// Is it a resizing that is another op, which has a rule?
fn is_area_of_volume(case: &Case) -> bool {
    case.op == "interpolate" && case.id.contains("area_volume")
}

#[test]
fn every_op_has_the_type_of_its_rule() {
    for (case, half) in cases().iter().flat_map(|c| HALVES.map(|h| (c, h))) {
        for operands in ALL {
            let op = case.op.as_str();
            let got = run(case, operands, half);
            if OWN.contains(&op) {
                got.unwrap();
                continue;
            }
            let several = floats(case) > 1;
            if REFUSE.contains(&op) && operands == Operands::Mixed && several {
                assert!(got.unwrap_err().to_string().contains(op), "{}", case.id);
                continue;
            }
            let of_operands = match operands {
                Operands::Single => DType::F32,
                Operands::Mixed if several => DType::F32,
                Operands::Half | Operands::Mixed => half,
            };
            let want = match rule(if is_area_of_volume(case) { "adaptive_avg_pool3d" } else { op }) {
                Rule::Half if op != "einsum" || several => half,
                Rule::Single => DType::F32,
                Rule::First => operands.dtype(0, half),
                Rule::Half | Rule::Widest | Rule::Operands => of_operands,
            };
            let got = got.unwrap_or_else(|e| panic!("{} {operands:?} {half}: {e}", case.id));
            // The running statistics of batch_norm stay f32.
            let got = if op == "batch_norm" { &got[..1] } else { &got[..] };
            assert!(got.iter().all(|d| *d == want), "{} {operands:?} {half}: {got:?}, want {want}", case.id);
        }
    }
}

/// The result of something of the table that is no op of the catalogue, or not by that name, or has
/// a rule for several operands alone.
fn other(name: &str, x: impl Fn(&[usize], usize) -> Tensor<Any>) -> Option<Tensor<Any>> {
    let device = Device::reference();
    let signs = || Tensor::new([1.0f32, -1.0, 1.0], &device);
    let mean = Reduction::Mean;
    let pad = |shape: &[usize], mode| x(shape, 0).pad(vec![1isize; 2 * (shape.len() - 2)], mode);
    Some(match name {
        "einsum" => Tensor::einsum("ij,jk->ik", &[&x(&[2, 3], 0), &x(&[3, 4], 1)]),
        "prelu" => {
            let layer = PReLU::<Any>::new(1, &device);
            layer.weight.set(&x(&[1], 1).to_dtype(DType::F32)).unwrap();
            layer.forward(&x(&[2, 3], 0))
        }
        "reflection_pad1d" => pad(&[1, 2, 5], Mode::Reflect),
        "reflection_pad2d" => pad(&[1, 2, 5, 5], Mode::Reflect),
        "replication_pad1d" => pad(&[1, 2, 5], Mode::Replicate),
        "replication_pad2d" => pad(&[1, 2, 5, 5], Mode::Replicate),
        "replication_pad3d" => pad(&[1, 2, 4, 4, 4], Mode::Replicate),
        "cosine_embedding_loss" => cosine_embedding_loss(&x(&[3, 4], 0), &x(&[3, 4], 1), &signs(), 0.0, mean),
        "margin_ranking_loss" => margin_ranking_loss(&x(&[3], 0), &x(&[3], 1), &signs(), 0.0, mean),
        "multi_margin_loss" => {
            multi_margin_loss(&x(&[3, 4], 0), &Tensor::new([1i64, 0, 3], &device), 1, 1.0, None, mean)
        }
        "poisson_nll_loss" => poisson_nll_loss(&x(&[2, 3], 0), &x(&[2, 3], 1), true, false, 1e-8, mean),
        "soft_margin_loss" => soft_margin_loss(&x(&[3], 0), &signs(), mean),
        _ => return None,
    })
}

#[test]
fn the_table_is_pytorchs() {
    let (cases, device) = (cases(), Device::reference());
    for row in Torch::all() {
        let mut seen = 0;
        for (half, operands) in HALVES.into_iter().flat_map(|h| ALL.map(|o| (h, o))) {
            let Some(want) = row.gives(operands, half) else { continue };
            let draw = |shape: &[usize], i: usize| {
                Generator::new(7)
                    .uniform(0.1, 0.9, shape, DType::F32, &device)
                    .to_dtype(operands.dtype(i, half))
            };
            let mut got = vec![];
            if let Some(y) = autocast(half, || other(&row.op, draw)) {
                got.push((row.op.clone(), y.dtype()));
            }
            // With as many operands as there are types, which have axes.
            let fits = |c: &&Case| {
                let of_floats = c.inputs.iter().filter(|i| i.tensor.dtype().is_float());
                c.op == row.op
                    && row.op != "einsum"
                    && !is_area_of_volume(c)
                    && (operands != Operands::Mixed || floats(c) > 1)
                    && of_floats.clone().count() > 0
                    && of_floats.take(2).all(|i| i.tensor.shape().rank() > 0)
            };
            for case in cases.iter().filter(fits) {
                got.extend(run(case, operands, half).unwrap().first().map(|d| (case.id.clone(), *d)));
            }
            seen += got.len();
            for (id, got) in got {
                assert_eq!(got, want, "{id} {operands:?} {half}");
            }
        }
        assert!(seen > 0, "nothing was run for {}", row.op);
    }
}

/// The recurrent ops, of which PyTorch's lists do not say the same for all devices.
const UNTOLD: &[&str] = &["rnn_tanh", "rnn_relu", "lstm", "gru"];

#[test]
fn every_row_of_the_table_is_one_of_pytorchs() {
    let torch: BTreeSet<String> = Torch::all().into_iter().map(|row| row.op).collect();
    let names: BTreeSet<&str> = TABLE.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), TABLE.len(), "a row is there twice");
    for name in &names {
        assert!(torch.contains(*name) != UNTOLD.contains(name), "{name}");
        let draw = |shape: &[usize], _: usize| Tensor::<Any>::ones(shape, DType::F32, &Device::reference());
        assert!(catalogue::NAMES.contains(name) || other(name, draw).is_some(), "there is no {name}");
    }
}

#[test]
fn the_document_has_the_table() {
    let words = |rule| match rule {
        Rule::Half => "16 bits",
        Rule::Single => "f32",
        Rule::Widest => "the widest type of its operands",
        Rule::First => "the type of its first operand",
        Rule::Operands => unreachable!("what is not in the table"),
    };
    let want: Vec<String> = TABLE.iter().map(|(op, rule)| format!("| `{op}` | {} |", words(*rule))).collect();
    let got: Vec<&str> = DOCUMENT.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(got, want);
}

/// All bits of the weights after some steps.
fn trained<M: Module<Any> + Layer<Any>>(
    net: M,
    data: &Arc<Pairs>,
    half: DType,
    device: &Device,
) -> Vec<(String, Vec<u8>)> {
    let loader = Loader::new(data.clone(), 8).unwrap().shuffle(0);
    let mut adam = AdamW::new(3e-3);
    let trainer = Trainer::new(&net, &mut adam, &loader, Classification::new());
    trainer.epochs(1).amp(half).clip_grad_norm(1.0).run(device).unwrap();
    let state = net.state_dict().unwrap();
    state.into_iter().map(|(name, t)| (name, t.data().to_le_bytes())).collect()
}

#[test]
fn a_training_has_the_same_bits_on_the_processor() {
    let all = digits().unwrap();
    let some =
        Digits { pixels: all.pixels[..24 * Digits::PIXELS].to_vec(), labels: all.labels[..24].to_vec() };
    let data = Arc::new(digit_pairs(&some).unwrap());
    let run = |half: DType, device: &Device| {
        let g = || Generator::new(3);
        [
            trained(DigitsMlp::<Any>::new(&mut g(), device), &data, half, device),
            trained(DigitsCnn::<Any>::new(&mut g(), device), &data, half, device),
            trained(DigitsTransformer::<Any>::new(&mut g(), device), &data, half, device),
        ]
    };
    for half in HALVES {
        let want = run(half, &Device::reference());
        assert!(want == run(half, &Device::parse("cpu").unwrap()), "{half}");
    }
}
