//! Certificates that a test makes for itself, in a directory of its own.

use std::path::PathBuf;
use std::process::Command;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};

/// An authority. Its files go with it.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: PathBuf,
}

/// A certificate and its key.
pub(crate) struct Certificate {
    pub(crate) chain: String,
    pub(crate) key: String,
    pub(crate) chain_file: PathBuf,
    pub(crate) key_file: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = format!("certificates-{:016x}", random());
        let directory = std::env::temp_dir().join(&name);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        std::fs::create_dir(&directory).expect("a new directory can be made");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        std::fs::write(directory.join("authority.pem"), issuer.pem()).expect("it is ours");
        Authority { issuer, directory }
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.directory.join("authority.pem")
    }

    /// A certificate for a host's name or address.
    pub(crate) fn certificate(&self, host: &str) -> Certificate {
        self.sign(
            host,
            CertificateParams::new([host.to_owned()]).expect("a name"),
        )
    }

    /// One that is over.
    pub(crate) fn expired(&self, host: &str) -> Certificate {
        let mut params = CertificateParams::new([host.to_owned()]).expect("a name");
        params.not_after = date_time_ymd(2020, 1, 1);
        self.sign("expired", params)
    }

    /// A file with the authority for a JVM; the password is `truststore`.
    pub(crate) fn truststore(&self) -> PathBuf {
        let file = self.directory.join("truststore.p12");
        let made = Command::new("keytool")
            .args(["-importcert", "-noprompt", "-storetype", "PKCS12"])
            .args(["-storepass", "truststore", "-alias", "authority"])
            .arg("-keystore")
            .arg(&file)
            .arg("-file")
            .arg(self.file())
            .output()
            .expect("keytool is part of the JDK: run `make setup`");
        assert!(made.status.success(), "{made:?}");
        file
    }

    fn sign(&self, file: &str, params: CertificateParams) -> Certificate {
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &self.issuer).expect("a certificate");
        let (chain, key) = (signed.pem(), key.serialize_pem());
        let (chain_file, key_file) = (
            self.write(&format!("{file}.pem"), &chain),
            self.write(&format!("{file}.key"), &key),
        );
        Certificate {
            chain,
            key,
            chain_file,
            key_file,
        }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let file = self.directory.join(name);
        std::fs::write(&file, text).expect("it is ours");
        file
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(())
}
