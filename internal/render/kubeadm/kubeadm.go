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

// ControlPlaneTaint keeps workloads off control planes in a cluster with
// workers.
const ControlPlaneTaint = state.LabelControlPlane

// maxRestartPeriod bounds kubelet's back-off for a crashing container.
// Otherwise it would keep an API server down for minutes after etcd is back
// (measured: docs/adr/0006).
const maxRestartPeriod = 5 * time.Second

// Init renders the configuration of `kubeadm init` on the host that starts the
// cluster. resuming skips kubeadm's checks for a clean host, because an
// interrupted run left one that is not clean.
func Init(s *site.Site, host state.HostFacts, resuming bool) ([]byte, error) {
	registration := registration(s, state.RoleBootstrap, host)
	if resuming {
		registration.IgnorePreflightErrors = append(registration.IgnorePreflightErrors, unclean()...)
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

// nobodys is the token on which kubeadm insists. kubeadm generates its secret
// part, which nobody learns, and nothing is bound to its group. The
// configuration server gives each joining host its own token, in another group
// (joining.Group).
var nobodys = bootstrapToken{
	TTL: time.Minute.String(), Usages: []string{"signing", "authentication"}, Groups: []string{"system:bootstrappers:holdfast:nobody"},
}

// AutoApproval is the ClusterRoleBinding with which kubeadm lets everybody who
// has a token of kubeadm's group get a certificate for any node name. `kubeadm
// init` and `kubeadm upgrade` create it.
const AutoApproval = "kubeadm:node-autoapprove-bootstrap"

// Progress describes how far an earlier, interrupted join came.
type Progress struct {
	// Resuming is true if there was one. Then kubeadm's checks for a clean host
	// are skipped, and no others.
	Resuming bool
	// KubeletBootstrapped is true if kubelet has its own certificate. Then its
	// phase is skipped: kubeadm refuses to repeat it for a node that is ready.
	KubeletBootstrapped bool
	// Pair is true if the host takes the place of a lost one of two: then Pacemaker starts
	// etcd.
	Pair bool
}

// Join renders the configuration of `kubeadm join` for another control plane or
// a worker. It contains no secret: the file that Access renders contains the
// access to the cluster. A control plane needs the files that Patches renders.
func Join(s *site.Site, role state.Role, host state.HostFacts, before Progress) ([]byte, error) {
	join := joinConfiguration{
		APIVersion: apiVersion, Kind: "JoinConfiguration",
		NodeRegistration: registration(s, role, host),
		Discovery:        discovery{File: fileDiscovery{KubeConfigPath: AccessPath}},
	}
	if before.Resuming || before.Pair {
		join.NodeRegistration.IgnorePreflightErrors = append(join.NodeRegistration.IgnorePreflightErrors, unclean()...)
	}
	if before.KubeletBootstrapped {
		join.SkipPhases = []string{"kubelet-start"}
	}
	if before.Pair {
		// By now the host's own etcd has its folder and its ports. kubelet runs already, with
		// a bootstrap token that this try has ended: its phase gives it the new one.
		join.SkipPhases = append(join.SkipPhases, "check-etcd", "etcd-join")
	}
	if role.ControlPlane() {
		join.ControlPlane = &joinControlPlane{LocalAPIEndpoint: local(host)}
		join.Patches = &patches{Directory: PatchesDir}
	}
	return documents(join)
}

// unclean names kubeadm's checks that fail on a host on which kubeadm was begun: files and ports of its
// control plane, kubelet and etcd are taken. All other checks hold for each run, or one that kubeadm
// refused would go on by itself at its next try, on a host with too little memory, say. kubeadm takes
// the names of checks that a role has not.
func unclean() []string {
	var out []string
	for _, port := range []int{site.APIPort, 10250, 10257, 10259, 2379, 2380} {
		out = append(out, "Port-"+strconv.Itoa(port))
	}
	for _, file := range []string{
		"/etc/kubernetes/manifests/etcd.yaml", "/etc/kubernetes/manifests/kube-apiserver.yaml", "/etc/kubernetes/manifests/kube-controller-manager.yaml",
		"/etc/kubernetes/manifests/kube-scheduler.yaml", "/etc/kubernetes/bootstrap-kubelet.conf", state.KubeletKubeconfig, state.KubernetesCA,
	} {
		out = append(out, "FileAvailable-"+strings.ReplaceAll(file, "/", "-"))
	}
	return append(out, "DirAvailable-"+strings.ReplaceAll(state.EtcdDataDir, "/", "-"))
}

func local(host state.HostFacts) apiEndpoint {
	return apiEndpoint{AdvertiseAddress: host.Addresses[0].String(), BindPort: site.APIPort}
}

func registration(s *site.Site, role state.Role, host state.HostFacts) nodeRegistration {
	reg := nodeRegistration{
		Name: host.NodeName, CRISocket: criSocket, ImagePullPolicy: "Never",
		Taints: []taint{},
		KubeletExtraArgs: []arg{
			// Without it kubelet goes by what the host is called when it starts, and its
			// certificate is for this name (docs/facts/loss.md, L74).
			{Name: "hostname-override", Value: host.NodeName},
			{Name: "node-ip", Value: joinAddrs(host.Addresses)},
			{Name: "node-labels", Value: noderole.Claim + "=" + string(installedAs(role))},
		},
	}
	if role.ControlPlane() && !s.Topology().MastersSchedulable {
		reg.Taints = append(reg.Taints, taint{Key: ControlPlaneTaint, Effect: "NoSchedule"})
	}
	if host.CgroupV1 {
		// The check refuses cgroup v1, even if failCgroupV1 allows it.
		reg.IgnorePreflightErrors = []string{"SystemVerification"}
	}
	return reg
}

// installedAs returns the role of a host after the installation.
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
		EncryptionAlgorithm: "ECDSA-P256", CertificateValidityPeriod: s.Config.CertificateValidityPeriod,
		Networking: networking{
			DNSDomain:     config.ServiceDomain,
			PodSubnet:     joinCIDRs(s.Config.Networking.ClusterNetwork),
			ServiceSubnet: strings.Join(s.Config.Networking.ServiceNetwork, ","),
		},
		APIServer:         apiServer(s),
		ControllerManager: controlPlane{ExtraArgs: slices.Concat(nodeCIDRMasks(s.Config.Networking.ClusterNetwork), []arg{monitorGrace(), podsKept}, signer, signing(s), servers())},
		Scheduler:         controlPlane{ExtraArgs: servers()},
		Etcd:              etcd{Local: localEtcd{DataDir: state.EtcdDataDir, ImageTag: payload.ImageTag("etcd"), ExtraArgs: quota(s)}},
		// Holdfast has its own cluster DNS, one on every host: render/clusterdns.
		// Disabling it here instead of skipping a phase holds for kubeadm's upgrades
		// too.
		DNS: dns{Disabled: true},
	}
}

// quota returns the arguments of etcd for the quota of the site, none for etcd's own.
func quota(s *site.Site) []arg {
	var out []arg
	for _, f := range s.Config.EtcdQuota().Flags() {
		out = append(out, arg{Name: f.Name, Value: f.Value})
	}
	return out
}

func apiServer(s *site.Site) controlPlane {
	args, mounts := files(s)
	return controlPlane{
		CertSANs: certSANs(s), ExtraVolumes: mounts,
		ExtraArgs: slices.Concat([]arg{readyCheck, leavesFirst, endsWatches, plugins, verifiesKubelets}, lostAfter(), servers(), args),
	}
}

// signer are the arguments with the file by which the controller manager signs,
// where kubeadm names ca.crt and ca.key (docs/adr/0074).
var signer = []arg{{Name: "cluster-signing-cert-file", Value: state.SigningPair}, {Name: "cluster-signing-key-file", Value: state.SigningPair}}

// signing returns the argument with the life of the certificates that the
// controller manager signs for kubelets, where the site names one.
func signing(s *site.Site) []arg {
	if s.Config.CertificateValidityPeriod == "" {
		return nil
	}
	return []arg{{Name: "cluster-signing-duration", Value: s.Config.CertificateValidityPeriod}}
}

// readyCheck makes an API server whose etcd hangs report not ready before the
// balancer's check times out (0.8 s). In time, it gets no new connections and
// keeps the existing ones; too late, it counts as dead and its watches are cut.
// Measured with etcd stopped for 8 s: with the default of 2 s the watch was cut
// after 2 s; with this value it survived.
var readyCheck = arg{Name: "etcd-readycheck-timeout", Value: "500ms"}

// leavesFirst has an API server that is told to end say that it is not ready, and take
// connections for so long all the same: balancers, which ask each second and once more after
// 250 ms, have led new ones elsewhere by then. By default it closes its port at once, and
// what a balancer had just led there got no answer.
var leavesFirst = arg{Name: "shutdown-delay-duration", Value: ShutdownDelay.String()}

// ShutdownDelay is for how long an API server that is told to end takes connections.
const ShutdownDelay = 2 * time.Second

// endsWatches has an API server that ends also end the watches of its clients, which then
// ask another one. By default it closes its port at once and then waits for connections
// with watches for up to a minute, which no client ends. kubelet of the host asks this API
// server alone: for that minute the host would renew no lease, and after nodeGrace and
// unreachableFor its pods would be evicted. Measured on a host of a pair, from SIGTERM to
// the end of the process: 60.4 s by default, 1.2 and 1.3 s with this value.
var endsWatches = arg{Name: "shutdown-watch-termination-grace-period", Value: "5s"}

// certSANs returns the names and addresses at which clients may reach the API
// besides the host's own: both names, all VIPs, and the loopback address of
// either family, for an administrator's forwarder.
func certSANs(s *site.Site) []string {
	sans := []string{s.ExternalAPIName(), s.APIName(), "localhost", "127.0.0.1", "::1"}
	for _, vip := range s.Config.APIVIPs() {
		sans = append(sans, vip.String())
	}
	return sans
}

// nodeCIDRMasks returns the arguments with each host's share of the pod
// networks, for the controller manager.
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

// evictionHard are the thresholds at which kubelet takes no more pods and ends
// some. Kubelet's own thresholds for disks are shares: it calls a disk of 250
// GB with 35 GB free full (seen in the lab). But a host needs a free amount:
// for logs, new images and the growth of etcd's database.
var evictionHard = map[string]string{
	"memory.available":   "100Mi",
	"nodefs.available":   "2Gi",
	"nodefs.inodesFree":  "5%",
	"imagefs.available":  "2Gi",
	"imagefs.inodesFree": "5%",
}

// imageGCOff makes kubelet remove unused images only when evictionHard asks for
// room, and then before any pod. Its own threshold is a share too: with 39 of
// 252 GB free it removed nearly all of them, and a site without a registry
// cannot get them back.
const imageGCOff int32 = 100

func kubeletConfiguration(host state.HostFacts) kubelet.KubeletConfiguration {
	c := kubelet.KubeletConfiguration{
		NodeLeaseDurationSeconds:    int32(leaseDuration.Seconds()),
		NodeStatusUpdateFrequency:   metav1.Duration{Duration: statusEvery},
		NodeStatusReportFrequency:   metav1.Duration{Duration: statusReported},
		ImageGCHighThresholdPercent: new(imageGCOff),
		TypeMeta:                    metav1.TypeMeta{APIVersion: kubelet.SchemeGroupVersion.String(), Kind: "KubeletConfiguration"},
		CgroupDriver:                host.CgroupDriver(), // of the first host; the others ask their own containerd
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
		// Use all addresses of a host, virtual ones too, because only those survive.
		// The default of this mode is the node's own address. If networks were named
		// here, kube-proxy would resolve them once an hour, but a virtual address
		// moves within seconds.
		NodePortAddresses: []string{"0.0.0.0/0", "::/0"},
		// Zero keeps the host's own limits; in a container they belong to the
		// surrounding machine and cannot be written.
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
