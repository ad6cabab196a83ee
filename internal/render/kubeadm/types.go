// Package kubeadm renders the configuration with which kubeadm initialises and
// joins hosts, API version kubeadm.k8s.io/v1beta4. The types below hold the
// fields that Holdfast sets; the source is kubeadm's API reference.
package kubeadm

import corev1 "k8s.io/api/core/v1"

const (
	apiVersion = "kubeadm.k8s.io/v1beta4"
	criSocket  = "unix:///run/containerd/containerd.sock"
)

type initConfiguration struct {
	APIVersion       string           `json:"apiVersion"`
	Kind             string           `json:"kind"`
	BootstrapTokens  []bootstrapToken `json:"bootstrapTokens"`
	NodeRegistration nodeRegistration `json:"nodeRegistration"`
	LocalAPIEndpoint apiEndpoint      `json:"localAPIEndpoint"`
}

type joinConfiguration struct {
	APIVersion       string            `json:"apiVersion"`
	Kind             string            `json:"kind"`
	NodeRegistration nodeRegistration  `json:"nodeRegistration"`
	Discovery        discovery         `json:"discovery"`
	ControlPlane     *joinControlPlane `json:"controlPlane,omitempty"`
	SkipPhases       []string          `json:"skipPhases,omitempty"`
	Patches          *patches          `json:"patches,omitempty"`
}

type clusterConfiguration struct {
	APIVersion           string `json:"apiVersion"`
	Kind                 string `json:"kind"`
	ClusterName          string `json:"clusterName"`
	KubernetesVersion    string `json:"kubernetesVersion"`
	ControlPlaneEndpoint string `json:"controlPlaneEndpoint"`
	ImageRepository      string `json:"imageRepository"`
	EncryptionAlgorithm  string `json:"encryptionAlgorithm"`
	// CertificateValidityPeriod is kubeadm's own if it is empty.
	CertificateValidityPeriod string       `json:"certificateValidityPeriod,omitempty"`
	Networking                networking   `json:"networking"`
	APIServer                 controlPlane `json:"apiServer"`
	ControllerManager         controlPlane `json:"controllerManager"`
	Scheduler                 controlPlane `json:"scheduler"`
	Etcd                      etcd         `json:"etcd"`
	DNS                       dns          `json:"dns"`
}

type bootstrapToken struct {
	TTL    string   `json:"ttl"`
	Usages []string `json:"usages"`
	Groups []string `json:"groups"`
}

type nodeRegistration struct {
	Name                  string   `json:"name"`
	CRISocket             string   `json:"criSocket"`
	ImagePullPolicy       string   `json:"imagePullPolicy"`
	Taints                []taint  `json:"taints"`
	KubeletExtraArgs      []arg    `json:"kubeletExtraArgs"`
	IgnorePreflightErrors []string `json:"ignorePreflightErrors,omitempty"`
}

type taint struct {
	Key    string `json:"key"`
	Effect string `json:"effect"`
}

type arg struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type apiEndpoint struct {
	AdvertiseAddress string `json:"advertiseAddress"`
	BindPort         int    `json:"bindPort"`
}

type joinControlPlane struct {
	LocalAPIEndpoint apiEndpoint `json:"localAPIEndpoint"`
}

type patches struct {
	Directory string `json:"directory"`
}

type discovery struct {
	File fileDiscovery `json:"file"`
}

type fileDiscovery struct {
	KubeConfigPath string `json:"kubeConfigPath"`
}

type networking struct {
	DNSDomain     string `json:"dnsDomain"`
	PodSubnet     string `json:"podSubnet"`
	ServiceSubnet string `json:"serviceSubnet"`
}

type controlPlane struct {
	CertSANs     []string        `json:"certSANs,omitempty"`
	ExtraArgs    []arg           `json:"extraArgs,omitempty"`
	ExtraVolumes []hostPathMount `json:"extraVolumes,omitempty"`
}

type hostPathMount struct {
	Name      string              `json:"name"`
	HostPath  string              `json:"hostPath"`
	MountPath string              `json:"mountPath"`
	ReadOnly  bool                `json:"readOnly"`
	PathType  corev1.HostPathType `json:"pathType"`
}

type etcd struct {
	Local localEtcd `json:"local"`
}

type localEtcd struct {
	DataDir   string `json:"dataDir"`
	ImageTag  string `json:"imageTag"`
	ExtraArgs []arg  `json:"extraArgs,omitempty"`
}

type dns struct {
	Disabled bool `json:"disabled"`
}
