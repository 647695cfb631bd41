//! Complete networks, to train or to load.

mod bert;
mod digits;
mod gpt2;
mod hf;
mod lenet;
mod llama;
mod lstm_lm;
mod mlp;
mod resnet;
mod source;

pub use digits::{DigitsCnn, DigitsMlp, DigitsTransformer, Recipe, digit_pairs};
pub use lenet::{LeNet, LeNetOptions};
pub use lstm_lm::{LstmLm, LstmLmOptions};
pub use mlp::Mlp;
pub use resnet::{ResNet, ResNetOptions};

pub use bert::{
    Bert, BertAttention, BertConfig, BertEmbeddings, BertEncoder, BertIntermediate, BertLayer, BertOutput,
    BertPooler, BertSelfAttention, mean_pooled,
};
pub use gpt2::{Conv1D, Gpt2, Gpt2Attention, Gpt2Block, Gpt2Config, Gpt2Mlp};
pub use hf::{Floats, model_type};
pub use llama::{Llama, LlamaBlock, LlamaConfig, LlamaMlp, LlamaModel};

use elinvar_core::{DType, Error, Result};
use elinvar_ops::Backend;
use elinvar_tensor::Tensor;

/// The number of tokens of each sequence.
///
/// # Errors
/// `ShapeMismatch`, `DTypeMismatch` if they are not [b, t] of i64; `InvalidArgument` if there are
/// none, or more than `positions` together with the `past` ones.
fn tokens<B: Backend>(model: &str, ids: &Tensor<B>, past: usize, positions: Option<usize>) -> Result<usize> {
    let &[_, t] = ids.dims() else {
        return Err(Error::shape(format!("{model}: tokens of shape {}; they should be [b, t]", ids.shape())));
    };
    if ids.dtype() != DType::I64 {
        return Err(Error::dtype(format!("{model}: tokens of {}; they should be i64", ids.dtype())));
    }
    if t == 0 {
        return Err(Error::argument(format!(
            "{model}: sequences of no tokens; there should be at least one"
        )));
    }
    match positions {
        Some(n) if past + t > n => {
            Err(Error::argument(format!("{model}: {t} tokens after {past}, and the model has {n} positions")))
        }
        Some(_) | None => Ok(t),
    }
}
