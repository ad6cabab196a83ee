package kubeadm_test

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// notOfAnUpgrade are our arguments that an upgrade does not give to a site that an earlier
// release installed, with the reason.
var notOfAnUpgrade = map[string]string{
	"kubelet-certificate-authority":               "it needs kubelets that serve by a certificate of the cluster's (docs/adr/0087)",
	"admission-control-config-file":               "it needs a file of ours and its mount",
	"authentication-config":                       "it needs a file of ours and its mount",
	"audit-policy-file":                           "it needs a file of ours and its mount",
	"audit-log-path":                              "it needs a mount",
	"audit-log-mode":                              "it is of the audit log, which needs a mount",
	"audit-log-maxsize":                           "it is of the audit log, which needs a mount",
	"audit-log-maxbackup":                         "it is of the audit log, which needs a mount",
	"audit-log-maxage":                            "it is of the audit log, which needs a mount",
	"audit-log-compress":                          "it is of the audit log, which needs a mount",
	"encryption-provider-config":                  "it needs a file of ours and its mount",
	"node-cidr-mask-size-ipv4":                    "it is of the site",
	"node-cidr-mask-size-ipv6":                    "it is of the site",
	"cluster-signing-cert-file":                   "it needs a file of ours (docs/adr/0074)",
	"cluster-signing-key-file":                    "it needs a file of ours (docs/adr/0074)",
	"node-monitor-grace-period":                   "it fits the lease of the kubelets, which an upgrade leaves as it is (docs/adr/0029)",
	"encryption-provider-config-automatic-reload": "it needs a file of ours and its mount",
}

// TestEachOfOurArgumentsReachesSitesThatAreUpgradedOrSaysWhyNot: kubeadm puts those that a
// configuration gives behind its own, of which the last is named here.
func TestEachOfOurArgumentsReachesSitesThatAreUpgradedOrSaysWhyNot(t *testing.T) {
	unused := map[string]bool{}
	for name := range notOfAnUpgrade {
		unused[name] = true
	}
	for program, last := range map[string]string{
		"kube-apiserver": "tls-private-key-file", "kube-controller-manager": "use-service-account-credentials", "kube-scheduler": "leader-elect",
	} {
		given := kubeadm.Arguments()[program]
		for name, value := range argumentsOf(t, program, last) {
			_, left := notOfAnUpgrade[name]
			delete(unused, name)
			switch upgraded, is := given[name]; {
			case is == left:
				t.Errorf("%s --%s: an upgrade gives it: %v; there is a reason why not: %v", program, name, is, left)
			case is && upgraded != value:
				t.Errorf("%s --%s: an installation says %q, an upgrade %q", program, name, value, upgraded)
			}
			delete(given, name)
		}
		for name := range given {
			t.Errorf("%s --%s: an upgrade gives what no installation does", program, name)
		}
	}
	for name := range unused {
		t.Errorf("there is no --%s", name)
	}
}

// argumentsOf returns the arguments of a program behind the last one of kubeadm's own.
func argumentsOf(t *testing.T, program, last string) map[string]string {
	t.Helper()
	data, err := os.ReadFile("testdata/made/" + program + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := yaml.Unmarshal(data, &pod); err != nil {
		t.Fatal(err)
	}
	var out map[string]string
	for _, word := range pod.Spec.Containers[0].Command {
		name, value, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		if out != nil {
			out[name] = value
		}
		if name == last {
			out = map[string]string{}
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s has nothing behind --%s", program, last)
	}
	return out
}
