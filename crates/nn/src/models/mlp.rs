//! `Mlp`: a perceptron of any depth.

use crate::layers::{Dropout, Linear, MlpActivation};
use crate::{Layer, Module};
use elinvar_core::{Error, Result};
use elinvar_ops::Backend;
use elinvar_tensor::{Generator, Tensor};

/// Linear layers with an activation and optional dropout between them.
///
/// x: [.., sizes\[0\]]   y: [.., last of sizes]
#[derive(Debug, Module)]
pub struct Mlp<B: Backend> {
    /// The linear layers, `layers.0`, `layers.1`, ...
    pub layers: Vec<Linear<B>>,
    dropout: Dropout,
    #[module(skip)]
    activation: MlpActivation,
}

impl<B: Backend> Mlp<B> {
    /// Of these sizes, inputs first, with ReLU and without dropout.
    ///
    /// # Errors
    /// `InvalidArgument` if there are fewer than two sizes.
    ///
    /// # Panics
    /// If memory is exhausted.
    #[track_caller]
    pub fn new(sizes: &[usize], g: &mut Generator, device: &B::Device) -> Result<Self> {
        if sizes.len() < 2 {
            return Err(Error::argument(format!(
                "mlp: sizes {sizes:?}; there should be one of the inputs and one of the outputs at least"
            )));
        }
        let layers = sizes.windows(2).map(|s| Linear::new(s[0], s[1], g, device)).collect();
        Ok(Mlp { layers, dropout: Dropout::new(0.0, g), activation: MlpActivation::Relu })
    }
    /// The activation between the layers. Default: ReLU.
    #[must_use]
    pub fn activation(mut self, activation: MlpActivation) -> Self {
        self.activation = activation;
        self
    }
    /// Dropout after each activation. Default: none.
    ///
    /// # Panics
    /// If `p` is not in 0..=1.
    #[must_use]
    #[track_caller]
    pub fn dropout(mut self, p: f64, g: &mut Generator) -> Self {
        self.dropout = Dropout::new(p, g);
        self
    }
}

impl<B: Backend> Layer<B> for Mlp<B> {
    #[track_caller]
    fn forward(&self, x: &Tensor<B>) -> Tensor<B> {
        let mut layers = self.layers.iter();
        let first = layers.next().expect("there is one layer at least");
        layers.fold(first.forward(x), |x, layer| {
            layer.forward(&self.dropout.forward(&self.activation.apply(&x)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use elinvar_core::{DType, ErrorKind};
    use elinvar_reference::{Reference, ReferenceDevice};

    #[test]
    fn layers_are_applied_in_order() {
        let (g, d) = (&mut Generator::new(1), ReferenceDevice);
        let m = Mlp::<Reference>::new(&[3, 5, 2], g, &d).unwrap().activation(MlpActivation::Silu);
        let x: Tensor<Reference> = g.randn([4, 3], &d);
        let by_hand = m.layers[1].forward(&m.layers[0].forward(&x).silu());
        assert_eq!(m.forward(&x).to_vec::<f32>().unwrap(), by_hand.to_vec::<f32>().unwrap());
        assert_eq!(m.num_parameters(), 3 * 5 + 5 + 5 * 2 + 2);
        let names: Vec<String> = m.named_parameters().into_iter().map(|(n, _)| n).collect();
        assert_eq!(names, ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]);
        // In training, dropout zeroes about half of the hidden units; in evaluation it is the
        // identity.
        let m = Mlp::<Reference>::new(&[1, 1000, 1], g, &d).unwrap().dropout(0.5, g);
        let one = Tensor::ones([1, 1], DType::F32, &d);
        let trained = m.forward(&one).item::<f64>();
        m.eval();
        assert_ne!(m.forward(&one).item::<f64>(), trained);
        let e = Mlp::<Reference>::new(&[3], g, &d).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidArgument);
    }
}
