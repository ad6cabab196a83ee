package kubeadm

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeproxy "k8s.io/kube-proxy/config/v1alpha1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// ControlPlaneTaint keeps workloads off control planes that have workers
// beside them.
const ControlPlaneTaint = state.LabelControlPlane

// maxRestartPeriod bounds kubelet's back-off of a crashing container, which
// would otherwise keep an API server down for minutes after etcd is back
// (measured: docs/adr/0006).
const maxRestartPeriod = 5 * time.Second

// Init renders the configuration of `kubeadm init` on the host that starts
// the cluster. Resuming skips kubeadm's checks for a clean host, since an
// interrupted run left one that is not.
func Init(s *site.Site, host state.HostFacts, resuming bool) ([]byte, error) {
	registration := registration(s, state.RoleBootstrap, host)
	if resuming {
		registration.IgnorePreflightErrors = []string{"all"}
	}
	return documents(
		initConfiguration{
			APIVersion: apiVersion, Kind: "InitConfiguration",
			BootstrapTokens:  []bootstrapToken{nobodys},
			NodeRegistration: registration,
			LocalAPIEndpoint: local(host),
		},
		cluster(s),
		kubeletConfiguration(host),
		kubeProxyConfiguration(),
	)
}

// nobodys is the token that kubeadm insists on. It makes up the secret part,
// which nobody is told, and nothing is bound to the group: each host that joins
// gets a token of its own from the configuration server, in another group
// (joining.Group).
var nobodys = bootstrapToken{
	TTL: time.Minute.String(), Usages: []string{"signing", "authentication"}, Groups: []string{"system:bootstrappers:holdfast:nobody"},
}

// AutoApproval is the ClusterRoleBinding by which kubeadm has the certificate of
// any node's name approved for whoever shows a token of its own group. `kubeadm
// init` and `kubeadm upgrade` make it.
const AutoApproval = "kubeadm:node-autoapprove-bootstrap"

// Progress is how far an earlier, interrupted join came.
type Progress struct {
	// Resuming is true if there was one. kubeadm's checks for a clean host are
	// skipped then.
	Resuming bool
	// KubeletBootstrapped is true if kubelet has its own certificate. Its
	// phase is skipped then: kubeadm refuses to repeat it for a node that is
	// ready.
	KubeletBootstrapped bool
}

// Join renders the configuration of `kubeadm join` for a further control
// plane or a worker. It holds no secret: how the host reaches the cluster is in
// the file that Access renders.
func Join(s *site.Site, role state.Role, host state.HostFacts, before Progress) ([]byte, error) {
	join := joinConfiguration{
		APIVersion: apiVersion, Kind: "JoinConfiguration",
		NodeRegistration: registration(s, role, host),
		Discovery:        discovery{File: fileDiscovery{KubeConfigPath: AccessPath}},
	}
	if before.Resuming {
		join.NodeRegistration.IgnorePreflightErrors = []string{"all"}
	}
	if before.KubeletBootstrapped {
		join.SkipPhases = []string{"kubelet-start"}
	}
	if role.ControlPlane() {
		join.ControlPlane = &joinControlPlane{LocalAPIEndpoint: local(host)}
	}
	return documents(join)
}

func local(host state.HostFacts) apiEndpoint {
	return apiEndpoint{AdvertiseAddress: host.Addresses[0].String(), BindPort: site.APIPort}
}

func registration(s *site.Site, role state.Role, host state.HostFacts) nodeRegistration {
	reg := nodeRegistration{
		Name: host.NodeName, CRISocket: criSocket, ImagePullPolicy: "Never",
		Taints: []taint{},
		KubeletExtraArgs: []arg{
			{Name: "node-ip", Value: joinAddrs(host.Addresses)},
			{Name: "node-labels", Value: noderole.Claim + "=" + string(installedAs(role))},
		},
	}
	if role.ControlPlane() && !s.Topology().MastersSchedulable {
		reg.Taints = append(reg.Taints, taint{Key: ControlPlaneTaint, Effect: "NoSchedule"})
	}
	if host.CgroupV1 {
		// The check refuses cgroup v1 whatever failCgroupV1 says.
		reg.IgnorePreflightErrors = []string{"SystemVerification"}
	}
	return reg
}

// installedAs is the role of a host once the cluster stands.
func installedAs(role state.Role) state.Role {
	if role == state.RoleBootstrap {
		return state.RoleMaster
	}
	return role
}

func cluster(s *site.Site) clusterConfiguration {
	return clusterConfiguration{
		APIVersion: apiVersion, Kind: "ClusterConfiguration",
		ClusterName: s.Config.Metadata.Name, KubernetesVersion: payload.KubernetesVersion,
		ControlPlaneEndpoint: s.APIEndpoint(), ImageRepository: payload.Registry,
		EncryptionAlgorithm: "ECDSA-P256",
		Networking: networking{
			DNSDomain:     "cluster.local",
			PodSubnet:     joinCIDRs(s.Config.Networking.ClusterNetwork),
			ServiceSubnet: strings.Join(s.Config.Networking.ServiceNetwork, ","),
		},
		APIServer:         apiServer(s),
		ControllerManager: controlPlane{ExtraArgs: slices.Concat(nodeCIDRMasks(s.Config.Networking.ClusterNetwork), []arg{monitorGrace(), podsKept}, servers())},
		Scheduler:         controlPlane{ExtraArgs: servers()},
		Etcd:              etcd{Local: localEtcd{DataDir: state.EtcdDataDir, ImageTag: payload.ImageTag("etcd")}},
		// Cluster DNS is Holdfast's own, one on every host: render/clusterdns.
		// Said here and not by a skipped phase, it holds for kubeadm's upgrades too.
		DNS: dns{Disabled: true},
	}
}

func apiServer(s *site.Site) controlPlane {
	args, mounts := files(s)
	return controlPlane{
		CertSANs: certSANs(s), ExtraVolumes: mounts,
		ExtraArgs: slices.Concat([]arg{readyCheck, plugins}, lostAfter(), servers(), args),
	}
}

// readyCheck has an API server whose etcd hangs say so before the load balancer's
// check of it is over (0.8 s). Said in time it gets no new connections and keeps
// those it has; said late it counts as dead and its watches are cut. Measured
// with etcd standing still for 8 s: with the default of 2 s the watch was cut
// after 2 s, with this it lived on.
var readyCheck = arg{Name: "etcd-readycheck-timeout", Value: "500ms"}

// certSANs are the names and addresses by which clients may reach the API
// besides the host's own: both names, all VIPs, and the loopback address of
// either family, through which a person's forwarder may go.
func certSANs(s *site.Site) []string {
	sans := []string{s.ExternalAPIName(), s.APIName(), "localhost", "127.0.0.1", "::1"}
	for _, vip := range s.Config.APIVIPs() {
		sans = append(sans, vip.String())
	}
	return sans
}

// nodeCIDRMasks tells the controller manager each host's share of the pod
// networks.
func nodeCIDRMasks(networks []config.ClusterNetworkEntry) []arg {
	if len(networks) == 1 {
		return []arg{{Name: "node-cidr-mask-size", Value: strconv.Itoa(int(networks[0].HostPrefix))}}
	}
	var args []arg
	for _, n := range networks {
		name := "node-cidr-mask-size-ipv4"
		if p, err := netip.ParsePrefix(n.CIDR); err == nil && p.Addr().Is6() {
			name = "node-cidr-mask-size-ipv6"
		}
		args = append(args, arg{Name: name, Value: strconv.Itoa(int(n.HostPrefix))})
	}
	return args
}

// evictionHard is when kubelet takes no more pods and ends some. Kubelet's own
// thresholds for disks are shares: of a disk of 250 GB with 35 GB free it says
// that it is full (seen in the lab). What a host needs free is an amount: for
// logs, images to come and etcd's database, which is 2 GiB by default.
var evictionHard = map[string]string{
	"memory.available":   "100Mi",
	"nodefs.available":   "2Gi",
	"nodefs.inodesFree":  "5%",
	"imagefs.available":  "2Gi",
	"imagefs.inodesFree": "5%",
}

// imageGCOff has kubelet remove images that no container uses only where
// evictionHard asks for room, and then before any pod. Its own threshold is a
// share too: with 39 of 252 GB free it removed nearly all of them, and at a site
// without a registry nobody brings them back.
const imageGCOff int32 = 100

func kubeletConfiguration(host state.HostFacts) kubelet.KubeletConfiguration {
	c := kubelet.KubeletConfiguration{
		NodeLeaseDurationSeconds:    int32(leaseDuration.Seconds()),
		NodeStatusUpdateFrequency:   metav1.Duration{Duration: statusEvery},
		NodeStatusReportFrequency:   metav1.Duration{Duration: statusReported},
		ImageGCHighThresholdPercent: new(imageGCOff),
		TypeMeta:                    metav1.TypeMeta{APIVersion: kubelet.SchemeGroupVersion.String(), Kind: "KubeletConfiguration"},
		CgroupDriver:                host.CgroupDriver(), // of the first host; each asks its own containerd
		FailSwapOn:                  new(false),
		CrashLoopBackOff: kubelet.CrashLoopBackOffConfig{
			MaxContainerRestartPeriod: &metav1.Duration{Duration: maxRestartPeriod},
		},
		ContainerRuntimeEndpoint: criSocket,
		EvictionHard:             maps.Clone(evictionHard),
	}
	harden(&c)
	if host.CgroupV1 {
		c.FailCgroupV1 = new(false)
	}
	if host.RestrictOOM {
		c.OOMScoreAdj = new(int32(0))
	}
	return c
}

func kubeProxyConfiguration() kubeproxy.KubeProxyConfiguration {
	zero := new(int32(0))
	off := &metav1.Duration{}
	return kubeproxy.KubeProxyConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeproxy.SchemeGroupVersion.String(), Kind: "KubeProxyConfiguration"},
		Mode:     "nftables",
		// All addresses of a host, virtual ones too: those are what survives. The
		// mode's default is the node's own. Networks instead would be looked up
		// once an hour, while a virtual address moves within seconds.
		NodePortAddresses: []string{"0.0.0.0/0", "::/0"},
		// Zero leaves the host's own limits alone; in a container they belong
		// to the machine around it and cannot be written.
		Conntrack: kubeproxy.KubeProxyConntrackConfiguration{
			MaxPerCore: zero, Min: zero, TCPEstablishedTimeout: off, TCPCloseWaitTimeout: off,
		},
	}
}

func joinAddrs(addresses []netip.Addr) string {
	var words []string
	for _, a := range addresses {
		words = append(words, a.String())
	}
	return strings.Join(words, ",")
}

func joinCIDRs(networks []config.ClusterNetworkEntry) string {
	var words []string
	for _, n := range networks {
		words = append(words, n.CIDR)
	}
	return strings.Join(words, ",")
}

func documents(objects ...any) ([]byte, error) {
	var out bytes.Buffer
	for i, o := range objects {
		data, err := yaml.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("render kubeadm configuration: %w", err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(data)
	}
	return out.Bytes(), nil
}
