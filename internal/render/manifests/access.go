package manifests

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/yaml"

	decide "github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/decide/machineconfig"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Namespaces that other packages name too.
const (
	// NamespaceConfig holds objects that administrators change.
	NamespaceConfig = "openshift-config"
	// NamespaceEtcd holds the accounts of the BMCs.
	NamespaceEtcd = "openshift-etcd"
)

// FencingSecretPrefix and the name of a node form the name of the Secret with
// the account of that node's BMC.
const FencingSecretPrefix = "fencing-credentials-"

func namespaces() []object {
	var out []object
	for _, name := range []string{
		NamespaceConfig, "openshift-config-managed", NamespaceEtcd, "openshift-ingress",
		"openshift-ingress-operator", "openshift-machine-config-operator", decide.CertificatesNamespace,
	} {
		out = append(out, object{file: "00-namespace-" + name, value: &corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
		}})
	}
	return out
}

// access returns the site's own secrets and certificates, and the configuration
// itself without secrets.
func access(c *config.InstallConfig) []object {
	out := []object{{file: "10-cluster-config", value: configMap(machineconfig.InstallNamespace, machineconfig.InstallName, machineconfig.InstallKey, redacted(c))}}
	if c.PullSecret != "" {
		secret := newSecret(NamespaceConfig, "pull-secret", corev1.SecretTypeDockerConfigJson)
		secret.Data = map[string][]byte{corev1.DockerConfigJsonKey: []byte(c.PullSecret.Reveal())}
		out = append(out, object{file: "10-pull-secret", value: secret, secret: true})
	}
	if c.AdditionalTrustBundle != "" {
		out = append(out, object{
			file:  "10-" + machineconfig.BundleName,
			value: configMap(machineconfig.BundleNamespace, machineconfig.BundleName, machineconfig.BundleKey, c.AdditionalTrustBundle),
		})
	}
	return out
}

// redacted returns the configuration as JSON shows it: with <redacted> for each
// password. A reader may learn that the accounts exist.
func redacted(c *config.InstallConfig) string {
	data, err := yaml.Marshal(c)
	if err != nil {
		return "" // the type contains nothing that JSON cannot express
	}
	return string(data)
}

func configMap(namespace, name, key, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string]string{key: value},
	}
}

// fencingSecrets returns the accounts with which the control planes switch each
// other off, one Secret per node.
func fencingSecrets(c *config.InstallConfig) []object {
	if c.ControlPlane.Fencing == nil {
		return nil
	}
	var out []object
	for _, cred := range c.ControlPlane.Fencing.Credentials {
		name := FencingSecretPrefix + cred.HostName
		secret := newSecret(NamespaceEtcd, name, corev1.SecretTypeOpaque)
		secret.Data = map[string][]byte{
			"address":                 []byte(cred.Address),
			"username":                []byte(cred.Username),
			"password":                []byte(cred.Password.Reveal()),
			"certificateVerification": []byte(cred.CertificateVerification),
		}
		for key, value := range map[string]string{"tls": cred.TLS, "systemID": cred.SystemID, state.FencingPinKey: cred.CertificateFingerprint} {
			if value != "" {
				secret.Data[key] = []byte(value)
			}
		}
		out = append(out, object{file: "20-" + name, value: secret, secret: true})
	}
	return out
}

func newSecret(namespace, name string, kind corev1.SecretType) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Type:       kind,
	}
}
