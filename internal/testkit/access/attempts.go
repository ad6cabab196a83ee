package access

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
)

// Target names the hosts that the attempts concern.
type Target struct {
	// ControlPlane is the host that root on Own attacks.
	ControlPlane, Own string
	// Request asks for an administrator's certificate, in PEM.
	Request []byte
}

// Attempts returns what root on a worker tries, with any identity. Each finding
// is a row of docs/attacks.md.
func Attempts(t Target) []Attempt {
	return slices.Concat(t.secrets(), t.nodes(), t.identities(), t.pods(), t.rules())
}

const (
	secretsOf = "/api/v1/namespaces/openshift-etcd/secrets"
	staticPod = "/api/v1/namespaces/kube-system/pods/kube-apiserver-"
	rbac      = "/apis/rbac.authorization.k8s.io/v1"
	policies  = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/"
)

func get(name, finding, path string) Attempt {
	return Attempt{Name: name, Finding: finding, Method: http.MethodGet, Path: path}
}

func send(name, finding, method, path, body string) Attempt {
	return Attempt{Name: name, Finding: finding, Method: method, Path: path, Body: body}
}

// secrets returns attempts to read what only control planes may know.
func (t Target) secrets() []Attempt {
	return []Attempt{
		get("all Secrets", "F1", "/api/v1/secrets"),
		get("the Secrets of the two hosts", "F1", secretsOf),
		get("the account of a BMC", "F1", secretsOf+"/fencing-credentials-"+t.ControlPlane),
		get("what a Job of a host is told", "F1", secretsOf+"/two-node-input-"+t.ControlPlane),
		get("the Secrets as they change", "F1", secretsOf+"?watch=1&timeoutSeconds=1"),
		get("the bootstrap tokens", "F1", "/api/v1/namespaces/kube-system/secrets?fieldSelector=type%3Dbootstrap.kubernetes.io%2Ftoken"),
		get("the pull secret", "F1", "/api/v1/namespaces/openshift-config/secrets/pull-secret"),
		get("the authority of the routers", "F1", "/api/v1/namespaces/openshift-ingress-operator/secrets"),
		get("the ConfigMaps of the two hosts", "F1", "/api/v1/namespaces/openshift-etcd/configmaps"),
		get("the API server's figures", "F1", "/metrics"),
		{Name: "the Secrets, as an administrator", Finding: "F22", Method: http.MethodGet, Path: secretsOf, As: "system:admin", AsGroups: []string{"holdfast:administrators"}},
		{Name: "the Secrets, as the operator", Finding: "F22", Method: http.MethodGet, Path: secretsOf, As: "system:serviceaccount:openshift-etcd:holdfast-operator"},
	}
}

// nodes returns attempts to turn this host into a control plane, or to make
// another host no longer one.
func (t Target) nodes() []Attempt {
	other, own := "/api/v1/nodes/"+t.ControlPlane, "/api/v1/nodes/"+t.Own
	const label = `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`
	lease := send("another host's lease", "F2", http.MethodPatch,
		"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+t.ControlPlane, `{"spec":{"holderIdentity":"`+t.Own+`"}}`)
	lease.Quiet = true // hosts renew their leases every few seconds, and no rule can tell these apart (docs/adr/0036)
	return []Attempt{
		send("a control plane's label away", "F2", http.MethodPatch, other+"/status", `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":null}}}`),
		send("a control plane's address", "F2", http.MethodPatch, other+"/status", `{"status":{"addresses":[{"type":"InternalIP","address":"10.9.9.9"}]}}`),
		send("a control plane that is not ready", "F2", http.MethodPatch, other+"/status", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`),
		send("a control plane's machine", "F2", http.MethodPatch, other, `{"metadata":{"annotations":{"holdfast.io/machine":"evil"}}}`),
		send("a control plane's reboot", "F2", http.MethodPatch, other, `{"metadata":{"annotations":{"holdfast.io/reboot-wanted":"2026-11-23T12:00:00Z"}}}`),
		send("a control plane's updates", "F2", http.MethodPatch, other, `{"metadata":{"annotations":{"holdfast.io/patch-wanted":"2026-11-23T12:00:00Z"}}}`),
		send("a control plane's reboot by its status", "F2", http.MethodPatch, other+"/status", `{"metadata":{"annotations":{"holdfast.io/reboot-given":"x"}}}`),
		send("a control plane's pods away", "F2", http.MethodPatch, other, `{"metadata":{"annotations":{"holdfast.io/drain-wanted":"x"}}}`),
		send("a control plane's virtual addresses", "F2", http.MethodPatch, other+"/status", `{"metadata":{"annotations":{"holdfast.io/vips-applied":"x"}}}`),
		send("a taint that empties a control plane", "F2", http.MethodPatch, other, `{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","value":"x","effect":"NoExecute"}]}}`),
		send("a control plane's Node away", "F2", http.MethodDelete, other, ""),
		send("the label of a control plane", "F2", http.MethodPatch, own, label),
		send("the same by its status", "F2", http.MethodPatch, own+"/status", label),
		lease,
	}
}

// identities returns attempts to be somebody else.
func (t Target) identities() []Attempt {
	const requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	const token = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`
	request, _ := json.Marshal(map[string]any{ // strings always encode
		"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
		"metadata": map[string]any{"generateName": "evil-"},
		"spec": map[string]any{
			"request": base64.StdEncoding.EncodeToString(t.Request), "signerName": "kubernetes.io/kube-apiserver-client", "usages": []string{"client auth"},
		},
	})
	return []Attempt{
		send("an administrator's certificate", "F3", http.MethodPost, requests, string(request)),
		send("the approval of a certificate", "F3", http.MethodPut, requests+"/evil/approval",
			`{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"evil"},"status":{"conditions":[{"type":"Approved","status":"True","reason":"x","message":"x"}]}}`),
		send("the operator's token", "F3", http.MethodPost, "/api/v1/namespaces/openshift-etcd/serviceaccounts/holdfast-operator/token", token),
		send("the token of who gathers roles", "F3", http.MethodPost, "/api/v1/namespaces/kube-system/serviceaccounts/clusterrole-aggregation-controller/token", token),
		send("a bootstrap token of its own", "F3", http.MethodPost, "/api/v1/namespaces/kube-system/secrets",
			`{"apiVersion":"v1","kind":"Secret","type":"bootstrap.kubernetes.io/token","metadata":{"name":"bootstrap-token-evil00"},"stringData":{"token-id":"evil00","token-secret":"0123456789abcdef"}}`),
		send("an administrator by a binding", "F22", http.MethodPost, rbac+"/clusterrolebindings",
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"evil"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"system:nodes"}]}`),
		send("more rights for flannel", "F2", http.MethodPatch, rbac+"/clusterroles/flannel", `{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`),
	}
}

// pods returns attempts to run something on a control plane, or to end it.
func (t Target) pods() []Attempt {
	spec := `{"nodeName":"` + t.ControlPlane + `","hostPID":true,"hostNetwork":true,"containers":[{"name":"x","image":"x","securityContext":{"privileged":true}}]}`
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"evil"},"spec":` + spec + `}`
	mirror := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"evil","annotations":{"kubernetes.io/config.mirror":"x"}},` +
		`"spec":{"nodeName":"` + t.Own + `","serviceAccountName":"holdfast-operator","containers":[{"name":"x","image":"x"}]}}`
	victim := staticPod + t.ControlPlane
	return []Attempt{
		send("a pod that is root on a control plane", "F6", http.MethodPost, "/api/v1/namespaces/default/pods", pod),
		send("the same in a namespace that may", "F6", http.MethodPost, "/api/v1/namespaces/openshift-etcd/pods", pod),
		send("a pod of its own with the operator's account", "F2", http.MethodPost, "/api/v1/namespaces/openshift-etcd/pods", mirror),
		send("a Job on a control plane", "F6", http.MethodPost, "/apis/batch/v1/namespaces/openshift-etcd/jobs",
			`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"evil"},"spec":{"template":{"spec":`+spec+`}}}`),
		send("a pod on every host", "F6", http.MethodPost, "/apis/apps/v1/namespaces/kube-system/daemonsets",
			`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"evil"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"x","image":"x"}]}}}}`),
		send("a command in a control plane's pod", "F6", http.MethodPost, victim+"/exec?command=id&stdout=true", ""),
		send("a container in a control plane's pod", "F6", http.MethodPatch, victim+"/ephemeralcontainers",
			`{"spec":{"ephemeralContainers":[{"name":"evil","image":"x"}]}}`),
		get("the log of a control plane's pod", "F6", victim+"/log"),
		get("a control plane's kubelet", "F6", "/api/v1/nodes/"+t.ControlPlane+"/proxy/pods"),
		send("another host's pod away", "F2", http.MethodDelete, victim, ""),
		send("another host's pod evicted", "F2", http.MethodPost, victim+"/eviction",
			`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"kube-apiserver-`+t.ControlPlane+`","namespace":"kube-system"}}`),
		send("another host's pod failed", "F2", http.MethodPatch, victim+"/status", `{"status":{"phase":"Failed"}}`),
	}
}

// rules returns attempts to change the rules of the cluster.
func (t Target) rules() []Attempt {
	const platform = "/apis/config.openshift.io/v1/infrastructures/cluster"
	return []Attempt{
		send("the guard of the pod network away", "F2", http.MethodDelete, policies+"holdfast-pod-network", ""),
		send("other virtual addresses", "F2", http.MethodPatch, platform, `{"spec":{"platformSpec":{"baremetal":{"apiServerInternalIPs":["10.9.9.9"]}}}}`),
		send("another topology", "F2", http.MethodPatch, platform+"/status", `{"status":{"controlPlaneTopology":"SingleReplica"}}`),
		send("a namespace that may everything", "F6", http.MethodPatch, "/api/v1/namespaces/default",
			`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`),
		send("an Ingress of the routers' own namespace", "F9", http.MethodPost, "/apis/networking.k8s.io/v1/namespaces/openshift-ingress/ingresses",
			`{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"evil"},"spec":{"defaultBackend":{"service":{"name":"x","port":{"number":80}}}}}`),
		send("a NetworkPolicy", "F14", http.MethodPost, "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
			`{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"evil"},"spec":{"podSelector":{}}}`),
		send("other keys for etcd", "F10", http.MethodPatch, "/api/v1/namespaces/kube-system/configmaps/holdfast-encryption", `{"data":{"keys":"9"}}`),
	}
}
