//! The key, certificate, password and cipher functions of a build without the
//! feature `sprig-crypto`: they have their names and parameters, and fail.

use super::prelude::*;

pub(super) const FUNCTIONS: &[Function] = &[
    f("bcrypt", "s", fail),
    f("htpasswd", "ss", fail),
    f("derivePassword", "ussss", fail),
    f("encryptAES", "ss", fail),
    f("decryptAES", "ss", fail),
    f("genPrivateKey", "s", fail),
    f("genCA", "si", fail),
    f("genCAWithKey", "sis", fail),
    f("genSelfSignedCert", "slli", fail),
    f("genSelfSignedCertWithKey", "sllis", fail),
    f("genSignedCert", "slliC", fail),
    f("genSignedCertWithKey", "slliCs", fail),
    f("buildCustomCert", "ss", fail),
];

fn fail(_: &mut Run<'_>, _: &[Value]) -> Outcome {
    Err("not part of this build: it was made without the cargo feature sprig-crypto".into())
}

#[cfg(all(test, feature = "sprig-crypto"))]
mod tests {
    use super::super::{certificates, crypto, keys};
    use super::FUNCTIONS;

    #[test]
    fn each_function_is_left_out_under_its_name() {
        let all = [crypto::FUNCTIONS, keys::FUNCTIONS, certificates::FUNCTIONS];
        let there: Vec<_> = all.into_iter().flatten().map(|f| (f.name, f.params)).collect();
        let left_out: Vec<_> = FUNCTIONS.iter().map(|f| (f.name, f.params)).collect();
        assert_eq!(left_out, there);
    }

    #[test]
    fn the_error_names_the_feature() {
        let mut run = super::Run::new(Default::default(), None);
        let error = (FUNCTIONS[0].body)(&mut run, &[]).unwrap_err();
        assert!(format!("{error:?}").contains("sprig-crypto"));
    }
}
