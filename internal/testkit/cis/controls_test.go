package cis

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

type section struct {
	title    string
	controls []control
}

// Programs that do what nothing of ours renders.
const (
	kubeadmDoes    = "kubeadm"
	kubernetesDoes = "Kubernetes' default"
)

// flag checks for an argument of a program, with the value if one is given.
func flag(program, name string, value ...string) func(*testing.T, facts) bool {
	return func(_ *testing.T, f facts) bool { return f.has(program, name, value...) }
}

func not(look func(*testing.T, facts) bool) func(*testing.T, facts) bool {
	return func(t *testing.T, f facts) bool { return !look(t, f) }
}

func all(looks ...func(*testing.T, facts) bool) func(*testing.T, facts) bool {
	return func(t *testing.T, f facts) bool {
		return !slices.ContainsFunc(looks, func(look func(*testing.T, facts) bool) bool { return !look(t, f) })
	}
}

// bothEtcds checks etcd as kubelet runs it, and as podman runs it on two hosts.
func bothEtcds(name string, value ...string) func(*testing.T, facts) bool {
	return all(flag("etcd", name, value...), flag("etcd under podman", name, value...))
}

// kubelet checks a field of kubelet's configuration, by its path.
func kubelet(path string, good func(any) bool) func(*testing.T, facts) bool {
	return func(_ *testing.T, f facts) bool {
		var at any = f.kubelet
		for field := range strings.SplitSeq(path, ".") {
			fields, _ := at.(map[string]any)
			at = fields[field]
		}
		return good(at)
	}
}

func is(want any) func(any) bool { return func(got any) bool { return got == want } }
func absent(got any) bool        { return got == nil }
func set(got any) bool           { return got != nil }

// strong reports whether all ciphers have forward secrecy and authenticate what
// they encrypt.
func strong(ciphers []string) bool {
	return len(ciphers) > 0 && !slices.ContainsFunc(ciphers, func(c string) bool {
		return !strings.HasPrefix(c, "TLS_ECDHE_") || !strings.Contains(c, "_GCM_") && !strings.Contains(c, "_POLY1305")
	})
}

// nobody checks that no rule of ours fits.
func nobody(fits func(role, rbacv1.PolicyRule) bool) func(*testing.T, facts) bool {
	return func(t *testing.T, f facts) bool {
		found := f.rules(fits)
		if len(found) > 0 {
			t.Logf("roles %v", found)
		}
		return len(found) == 0
	}
}

func refused(change func(*corev1.PodSpec)) func(*testing.T, facts) bool {
	return func(t *testing.T, f facts) bool { return f.refuses(t, change) }
}

// everyPod checks all pods of ours.
func everyPod(good func(pod) bool) func(*testing.T, facts) bool {
	return func(_ *testing.T, f facts) bool {
		return !slices.ContainsFunc(f.pods, func(p pod) bool { return !good(p) })
	}
}

func level(kind, want string) func(*testing.T, facts) bool {
	return func(t *testing.T, f facts) bool {
		var policy struct {
			Rules []struct {
				Level     string
				Users     []string
				Verbs     []string
				Resources []struct {
					Group     string
					Resources []string
				}
				NonResourceURLs []string
			}
		}
		if err := yaml.Unmarshal([]byte(f.audit), &policy); err != nil {
			t.Fatal(err)
		}
		for _, rule := range policy.Rules {
			if len(rule.NonResourceURLs) > 0 || len(rule.Users) > 0 {
				continue // does not cover every request for an object
			}
			if len(rule.Resources) == 0 {
				return rule.Level == want
			}
			for _, r := range rule.Resources {
				if slices.Contains(r.Resources, kind) {
					return rule.Level == want
				}
			}
		}
		return false
	}
}

// sections are the sections of the benchmark.
var sections = slices.Concat(programs, policies)

var programs = []section{
	{"1.1 Files of a control plane", []control{
		{
			id: "1.1.1, .3, .5, .7", what: "manifests of static pods are 0600", shown: "TestKubeadmMakesWhatIsApproved", verdict: pass,
			why: "Those that Holdfast adds are too: `TestEveryStaticPodIsWrittenForRootAlone`.",
		},
		{id: "1.1.2, .4, .6, .8", what: "they belong to root", verdict: pass, shown: kubeadmDoes},
		{id: "1.1.9, .10", what: "the pod network's file is root's, 0600", shown: "TestTheFileOfThePodNetworkIsForRootAlone", verdict: pass},
		{id: "1.1.11", what: "etcd's data is 0700", verdict: pass, shown: kubeadmDoes},
		{
			id: "1.1.12", what: "etcd's data belongs to a user etcd", verdict: fail,
			why: "etcd is root in its container, as kubeadm has it, and on two hosts as podman runs it. The folder is root's alone.",
		},
		{id: "1.1.13-1.1.18", what: "kubeconfigs are root's, 0600", verdict: pass, shown: kubeadmDoes},
		{id: "1.1.19", what: "keys and certificates belong to root", verdict: pass, shown: kubeadmDoes},
		{id: "1.1.20, .21", what: "certificates are 0644, keys 0600", verdict: pass, shown: kubeadmDoes},
	}},
	{"1.2 API server", []control{
		{
			id: "1.2.1", what: "nobody without a name", look: flag("kube-apiserver", "anonymous-auth", "false"),
			why: "Health is asked by kubelet, the load balancer and other hosts without a name, and cluster-info by a joining host. Nothing else is answered: `TestWhoHasNoNameIsAnsweredNothingElse`.",
		},
		{id: "1.2.2", what: "no file of tokens", look: not(flag("kube-apiserver", "token-auth-file"))},
		{id: "1.2.3", what: "no external addresses of Services", look: flag("kube-apiserver", "enable-admission-plugins", "DenyServiceExternalIPs")},
		{id: "1.2.4", what: "it shows kubelets a certificate", look: all(flag("kube-apiserver", "kubelet-client-certificate"), flag("kube-apiserver", "kubelet-client-key"))},
		{id: "1.2.5", what: "it verifies theirs", look: flag("kube-apiserver", "kubelet-certificate-authority", "/etc/kubernetes/pki/ca.crt")},
		{id: "1.2.6", what: "not everything is allowed", look: not(flag("kube-apiserver", "authorization-mode", "AlwaysAllow"))},
		{id: "1.2.7", what: "a host's rights end with its pods", look: flag("kube-apiserver", "authorization-mode", "Node")},
		{id: "1.2.8", what: "RBAC", look: flag("kube-apiserver", "authorization-mode", "RBAC")},
		{
			id: "1.2.9", what: "EventRateLimit", look: flag("kube-apiserver", "enable-admission-plugins", "EventRateLimit"),
			why: "It is alpha, counts Events and not their size, and bounds nobody who may write other objects. kubelet and the clients of programs bound themselves; requests are shared out fairly (API Priority and Fairness).",
		},
		{id: "1.2.10", what: "no AlwaysAdmit", look: not(flag("kube-apiserver", "enable-admission-plugins", "AlwaysAdmit"))},
		{
			id: "1.2.11", what: "AlwaysPullImages", look: flag("kube-apiserver", "enable-admission-plugins", "AlwaysPullImages"),
			why: "A site without a registry has nowhere to pull from. kubelet checks who may use an image that it pulled (Kubernetes' default from 1.35 on).",
		},
		{id: "1.2.12", what: "ServiceAccount", look: not(flag("kube-apiserver", "disable-admission-plugins", "ServiceAccount"))},
		{id: "1.2.13", what: "NamespaceLifecycle", look: not(flag("kube-apiserver", "disable-admission-plugins", "NamespaceLifecycle"))},
		{id: "1.2.14", what: "NodeRestriction", look: flag("kube-apiserver", "enable-admission-plugins", "NodeRestriction")},
		{id: "1.2.15", what: "no profiling", look: flag("kube-apiserver", "profiling", "false")},
		{id: "1.2.16", what: "an audit log", look: flag("kube-apiserver", "audit-log-path")},
		{id: "1.2.17", what: "of 30 days", look: flag("kube-apiserver", "audit-log-maxage", "30")},
		{id: "1.2.18", what: "of 10 files", look: flag("kube-apiserver", "audit-log-maxbackup", "10")},
		{id: "1.2.19", what: "of 100 MB", look: flag("kube-apiserver", "audit-log-maxsize", "100"), why: "1.1 GB at the most; old files are packed."},
		{id: "1.2.20", what: "a request ends", look: not(flag("kube-apiserver", "request-timeout")), why: "Kubernetes' 60 s."},
		{id: "1.2.21", what: "accounts that are gone are gone", look: not(flag("kube-apiserver", "service-account-lookup", "false"))},
		{id: "1.2.22", what: "a key for accounts", look: flag("kube-apiserver", "service-account-key-file")},
		{id: "1.2.23, .26", what: "TLS to etcd", look: all(flag("kube-apiserver", "etcd-certfile"), flag("kube-apiserver", "etcd-keyfile"), flag("kube-apiserver", "etcd-cafile"))},
		{id: "1.2.24, .25", what: "TLS to clients", look: all(flag("kube-apiserver", "tls-cert-file"), flag("kube-apiserver", "tls-private-key-file"), flag("kube-apiserver", "client-ca-file"))},
		{id: "1.2.27", what: "Secrets are encrypted in etcd", look: flag("kube-apiserver", "encryption-provider-config"), shown: "TestASecretCannotBeReadInEtcd"},
		{id: "1.2.28", what: "by a good provider, first of all", look: func(_ *testing.T, f facts) bool {
			_, providers, _ := strings.Cut(f.encryption, "providers:\n")
			return strings.HasPrefix(strings.TrimSpace(providers), "- secretbox:") && !strings.Contains(f.encryption, "identity")
		}, why: "secretbox: [adr/0036](adr/0036-what-an-api-server-keeps.md)."},
		{id: "1.2.29", what: "strong ciphers", look: func(_ *testing.T, f facts) bool {
			return strong(strings.Split(f.flags["kube-apiserver"]["tls-cipher-suites"], ","))
		}},
		{
			id: "1.2.30", what: "tokens of pods end after an hour", look: flag("kube-apiserver", "service-account-extend-token-expiration", "false"),
			why: "After an API server was away for an hour every pod of the site would be a stranger until kubelet has renewed its token, within two minutes. Tokens are bound to their pod: they end with it.",
		},
	}},
	{"1.3, 1.4 Controller manager and scheduler", []control{
		{id: "1.3.1", what: "pods that have ended are bounded", look: flag("kube-controller-manager", "terminated-pod-gc-threshold")},
		{id: "1.3.2, 1.4.1", what: "no profiling", look: all(flag("kube-controller-manager", "profiling", "false"), flag("kube-scheduler", "profiling", "false"))},
		{id: "1.3.3", what: "an account for each controller", look: flag("kube-controller-manager", "use-service-account-credentials", "true")},
		{id: "1.3.4", what: "a key for accounts", look: flag("kube-controller-manager", "service-account-private-key-file")},
		{id: "1.3.5", what: "pods verify the API", look: flag("kube-controller-manager", "root-ca-file")},
		{id: "1.3.6", what: "kubelets' server certificates may be renewed", look: not(flag("kube-controller-manager", "feature-gates"))},
		{id: "1.3.7, 1.4.2", what: "they listen on the loopback address", look: all(flag("kube-controller-manager", "bind-address", "127.0.0.1"), flag("kube-scheduler", "bind-address", "127.0.0.1"))},
	}},
	{"2 etcd, under kubelet and under podman", []control{
		{id: "2.1", what: "a certificate for clients", look: all(bothEtcds("cert-file"), bothEtcds("key-file"))},
		{id: "2.2", what: "clients need one", look: bothEtcds("client-cert-auth", "true")},
		{id: "2.3", what: "none that signs itself", look: not(bothEtcds("auto-tls"))},
		{id: "2.4", what: "a certificate for peers", look: all(bothEtcds("peer-cert-file"), bothEtcds("peer-key-file"))},
		{id: "2.5", what: "peers need one", look: bothEtcds("peer-client-cert-auth", "true")},
		{id: "2.6", what: "none that signs itself", look: not(bothEtcds("peer-auto-tls"))},
		{id: "2.7", what: "an authority of its own", look: func(_ *testing.T, f facts) bool {
			own := f.flags["etcd"]["trusted-ca-file"]
			return own != "" && own != f.flags["kube-apiserver"]["client-ca-file"] && own == f.flags["etcd under podman"]["trusted-ca-file"]
		}},
	}},
	{"3 People, and what is recorded", []control{
		{
			id: "3.1.1", what: "people have no client certificates", verdict: fail,
			why: "The installation's kubeconfig is one, of a group that a binding makes administrators and whose deletion ends that: `TestAnAdministratorIsOneForAsLongAsABindingSaysSo`. A site's OpenID Connect goes into `jwt` of `/etc/holdfast/apiserver/authentication.yaml`.",
		},
		{id: "3.1.2, .3", what: "people have no tokens of accounts or of joining hosts", verdict: pass, shown: "the installation makes none"},
		{id: "3.2.1", what: "an audit policy", look: flag("kube-apiserver", "audit-policy-file")},
		{id: "3.2.2", what: "that has what matters", shown: "TestARefusedRequestLeavesALineAndNoLineHasASecret", look: all(
			level("secrets", "Metadata"), level("configmaps", "Metadata"), level("tokenreviews", "Metadata"),
			level("pods", "Metadata"), level("deployments", "Metadata"), level("pods/exec", "Metadata"), level("pods/portforward", "Metadata"),
			level("pods/proxy", "Metadata"), level("services/proxy", "Metadata"))},
	}},
	{"4.1 Files of a host", []control{
		{
			id: "4.1.1", what: "kubelet's unit is 0600", verdict: fail,
			why: "It holds no secret, and systemd shows it to whoever asks, whatever its mode.",
		},
		{id: "4.1.2", what: "it belongs to root", verdict: pass, shown: "`holdfast-agent apply`"},
		{id: "4.1.3, .4", what: "kube-proxy's kubeconfig", verdict: pass, shown: kubeadmDoes, why: "It is in a ConfigMap and in its pod, not on the host."},
		{id: "4.1.5, .6", what: "kubelet's kubeconfig is root's, 0600", verdict: pass, shown: kubeadmDoes},
		{id: "4.1.7, .8", what: "the authority's certificate is root's, 0644", verdict: pass, shown: kubeadmDoes},
		{id: "4.1.9, .10", what: "kubelet's configuration is root's, 0600", verdict: pass, shown: "TestWhatKubeadmWroteForEverybodyIsForRootAlone"},
	}},
	{"4.2, 4.3 kubelet and kube-proxy", []control{
		{id: "4.2.1", what: "nobody without a name", look: kubelet("authentication.anonymous.enabled", is(false))},
		{id: "4.2.2", what: "the API says who may", look: kubelet("authorization.mode", is("Webhook"))},
		{id: "4.2.3", what: "an authority for clients", look: kubelet("authentication.x509.clientCAFile", set)},
		{id: "4.2.4", what: "no port for reading", look: kubelet("readOnlyPort", absent)},
		{id: "4.2.5", what: "idle streams end", look: kubelet("streamingConnectionIdleTimeout", is("0s")), why: "0 in this file is kubelet's default, 4 hours."},
		{id: "4.2.6", what: "its own chains", look: kubelet("makeIPTablesUtilChains", absent)},
		{id: "4.2.7", what: "a host has its own name", verdict: pass, shown: kubeadmDoes, why: "kubeadm overrides it only where the host has another one."},
		{id: "4.2.8", what: "Events are recorded", look: kubelet("eventRecordQPS", absent), why: "Kubernetes' 50 a second."},
		{id: "4.2.9", what: "a server certificate of the cluster's", look: func(t *testing.T, f facts) bool {
			return kubelet("serverTLSBootstrap", is(true))(t, f) || kubelet("tlsCertFile", set)(t, f)
		}, why: "The agents of control planes approve it: [adr/0087](adr/0087-kubelet-serving-certificates.md)."},
		{id: "4.2.10", what: "its client certificate is renewed", look: kubelet("rotateCertificates", is(true))},
		{id: "4.2.11", what: "its server certificate may be", look: kubelet("featureGates.RotateKubeletServerCertificate", absent)},
		{id: "4.2.12", what: "strong ciphers", look: kubelet("tlsCipherSuites", func(got any) bool {
			list, _ := got.([]any)
			var names []string
			for _, c := range list {
				name, _ := c.(string)
				names = append(names, name)
			}
			return strong(names)
		})},
		{id: "4.2.13", what: "a pod's processes are bounded", look: kubelet("podPidsLimit", set), why: "4096 each."},
		{id: "4.2.14", what: "a filter of system calls for every container", look: kubelet("seccompDefault", is(true))},
		{id: "4.3.1", what: "kube-proxy's metrics are on the loopback address", verdict: pass, shown: kubernetesDoes},
	}},
}
