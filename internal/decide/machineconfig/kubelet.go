package machineconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/state"
)

// KubeletPath is the file of a configuration with settings of kubelet. kubelet lays
// them over those that kubeadm writes.
const KubeletPath = state.KubeletFolder + "50-machine-config.conf"

// withoutPressure are the settings that make no host short of memory or of process ids.
var withoutPressure = []string{
	"allowedUnsafeSysctls", "containerLogMaxFiles", "containerLogMaxSize", "containerLogMaxWorkers", "containerLogMonitorInterval", "eventBurst", "eventRecordQPS",
	"kubeAPIBurst", "kubeAPIQPS", "logging", "registryBurst", "registryPullQPS", "streamingConnectionIdleTimeout",
}

// Kubelet returns the settings of kubelet in a configuration that may make a host short of memory or of process ids,
// in one form, to compare them with those of another one; empty for none.
func (c Config) Kubelet() string {
	for _, f := range c.Ignition.Storage.Files {
		if f.Path == KubeletPath && f.Contents.Source != nil {
			return pressing(f)
		}
	}
	return ""
}

// pressing returns those settings in a file. One that cannot be read is returned as it is, and differs from others.
func pressing(f types.File) string {
	data, err := ignition.Contents(f.Contents)
	if err != nil {
		return *f.Contents.Source
	}
	fields, err := parseKubelet(data)
	if err != nil {
		return *f.Contents.Source
	}
	maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool { return slices.Contains(withoutPressure, name) })
	if len(fields) == 0 {
		return ""
	}
	if data, err = fields.file(); err != nil {
		return *f.Contents.Source
	}
	return string(data)
}

// KubeletOf returns what Kubelet does of rendered configurations, by their names. One that cannot be read is not there;
// one of an earlier release, which this one refuses, is: hosts have it until the site has corrected it.
func KubeletOf(list []mcfgv1.MachineConfig) map[string]string {
	out := map[string]string{}
	for _, mc := range list {
		if _, rendered := mc.Labels[LabelRendered]; !rendered {
			continue
		}
		if c, err := Kept(mc); err == nil {
			out[mc.Name] = c.Kubelet()
		}
	}
	return out
}

// kubeletFields are the settings of kubelet that a site may have, as the fields of a
// KubeletConfiguration.
type kubeletFields map[string]json.RawMessage

// file returns the bytes of KubeletPath.
func (f kubeletFields) file() ([]byte, error) {
	all := maps.Clone(f)
	all["apiVersion"] = json.RawMessage(`"` + kubelet.SchemeGroupVersion.String() + `"`)
	all["kind"] = json.RawMessage(kubeletKind)
	data, err := json.Marshal(all)
	return append(data, '\n'), err
}

const kubeletKind = `"KubeletConfiguration"`

// parseKubelet returns the settings in a KubeletConfiguration.
func parseKubelet(data []byte) (kubeletFields, error) {
	var out kubeletFields
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, errors.New("is not a JSON object")
	}
	for name, want := range map[string]string{"apiVersion": `"` + kubelet.SchemeGroupVersion.String() + `"`, "kind": kubeletKind} {
		if given, ok := out[name]; ok && string(given) != want {
			return nil, fmt.Errorf("%s is not %s", name, want)
		}
		delete(out, name)
	}
	return out, nil
}

// checkKubelet reports what is wrong with settings, by their names. kubelet does not
// start with a wrong one.
func checkKubelet(fields kubeletFields, fault func(field, why string)) {
	var all kubelet.KubeletConfiguration
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name == "logging" && verbosity.Match(fields[name]) {
			continue
		}
		check, may := kubeletChecks[name]
		switch {
		case may:
		case kubeletRefused[name] != "":
			fault(name, kubeletRefused[name])
			continue
		case slices.Contains(kubeletNames(), name):
			fault(name, "Holdfast does not let a site set it; remove it")
			continue
		default:
			fault(name, "kubelet knows no such field")
			continue
		}
		one := kubelet.KubeletConfiguration{}
		if !decodeField(name, fields[name], &one) || !decodeField(name, fields[name], &all) {
			fault(name, "is not of its type")
		} else if why := check(&one); why != "" {
			fault(name, why)
		}
	}
	checkTogether(fields, &all, fault)
}

// verbosity is the one setting of the log, which comes from spec.logLevel.
var verbosity = regexp.MustCompile(`^\{"verbosity":(10|[0-9])\}$`)

func decodeField(name string, value json.RawMessage, into *kubelet.KubeletConfiguration) bool {
	data, err := json.Marshal(map[string]json.RawMessage{name: value})
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return err == nil && string(value) != "null" && d.Decode(into) == nil
}

// kubeletNames returns the fields that kubelet knows.
func kubeletNames() []string {
	var out []string
	for f := range reflect.TypeFor[kubelet.KubeletConfiguration]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}

// checkTogether reports settings that need each other.
func checkTogether(fields kubeletFields, all *kubelet.KubeletConfiguration, fault func(field, why string)) {
	if slices.ContainsFunc(slices.Collect(maps.Keys(all.EvictionSoft)), func(s string) bool { return all.EvictionSoftGracePeriod[s] == "" }) ||
		slices.ContainsFunc(slices.Collect(maps.Keys(all.EvictionSoftGracePeriod)), func(s string) bool { return all.EvictionSoft[s] == "" }) {
		fault("evictionSoft", "needs the same signals as evictionSoftGracePeriod")
	}
	if n := all.MaxParallelImagePulls; n != nil && *n > 1 && (all.SerializeImagePulls == nil || *all.SerializeImagePulls) {
		fault("maxParallelImagePulls", "more than 1 needs serializeImagePulls: false")
	}
	if _, has := fields["evictionMaxPodGracePeriod"]; has && len(all.EvictionSoft) == 0 {
		fault("evictionMaxPodGracePeriod", "has a meaning with evictionSoft only")
	}
}

// The reasons for which a setting is refused.
const (
	ofKubeadm  = "kubeadm and Holdfast set it for the whole cluster; remove it"
	ofShutdown = "the shutdown of a host is Holdfast's; remove it"
	ofManagers = "kubelet does not start with the state that another policy left on the disk, and nobody removes that here; remove it"
	ofNodes    = "the cluster takes a host for lost by it; remove it"
	ofImages   = "a site without a registry cannot get removed images back, so kubelet removes them only when evictionHard asks for room; remove it"
)

// kubeletRefused are the settings that people know and cannot have here.
var kubeletRefused = map[string]string{
	"cgroupDriver": "it is containerd's, and containers of one cannot be taken over by the other; remove it", "cgroupRoot": ofKubeadm,
	"clusterDNS": ofKubeadm, "clusterDomain": ofKubeadm, "resolvConf": ofKubeadm, "containerRuntimeEndpoint": ofKubeadm, "imageServiceEndpoint": ofKubeadm,
	"staticPodPath": ofKubeadm, "staticPodURL": ofKubeadm, "address": ofKubeadm, "port": ofKubeadm, "readOnlyPort": ofKubeadm, "providerID": ofKubeadm,
	"healthzPort": ofKubeadm, "healthzBindAddress": ofKubeadm, "featureGates": ofKubeadm, "failSwapOn": ofKubeadm, "memorySwap": ofKubeadm,
	"authentication": ofKubeadm, "authorization": ofKubeadm, "rotateCertificates": ofKubeadm, "serverTLSBootstrap": ofKubeadm,
	"tlsCertFile": ofKubeadm, "tlsPrivateKeyFile": ofKubeadm, "tlsCipherSuites": ofKubeadm, "tlsMinVersion": ofKubeadm, "registerNode": ofKubeadm,
	"seccompDefault": "every container has a filter of system calls; remove it", "crashLoopBackOff": ofKubeadm, "logging": "only its verbosity may be set",
	"shutdownGracePeriod": ofShutdown, "shutdownGracePeriodCriticalPods": ofShutdown, "shutdownGracePeriodByPodPriority": ofShutdown,
	"cpuManagerPolicy": ofManagers, "cpuManagerPolicyOptions": ofManagers, "cpuManagerReconcilePeriod": ofManagers, "memoryManagerPolicy": ofManagers,
	"reservedMemory": ofManagers, "reservedSystemCPUs": ofManagers, "topologyManagerPolicy": ofManagers, "topologyManagerPolicyOptions": ofManagers,
	"topologyManagerScope": ofManagers, "nodeLeaseDurationSeconds": ofNodes, "nodeStatusUpdateFrequency": ofNodes, "nodeStatusReportFrequency": ofNodes,
	"imageGCHighThresholdPercent": ofImages, "imageGCLowThresholdPercent": ofImages, "imageMinimumGCAge": ofImages, "imageMaximumGCAge": ofImages,
	"systemReservedCgroup": ofKubeadm, "kubeReservedCgroup": ofKubeadm, "enforceNodeAllocatable": ofKubeadm,
}

// kubeletChecks are the settings that a site may have, each with what its value has
// to be.
var kubeletChecks = map[string]func(*kubelet.KubeletConfiguration) string{
	"maxPods": func(c *kubelet.KubeletConfiguration) string { return within(int64(c.MaxPods), 1, 5000) },
	"podPidsLimit": func(c *kubelet.KubeletConfiguration) string {
		return within(*c.PodPidsLimit, minPIDs, maxPIDs)
	},
	"containerLogMaxSize": func(c *kubelet.KubeletConfiguration) string {
		return logSize(c.ContainerLogMaxSize)
	},
	"containerLogMaxFiles":   func(c *kubelet.KubeletConfiguration) string { return within(int64(*c.ContainerLogMaxFiles), 2, 1000) },
	"containerLogMaxWorkers": func(c *kubelet.KubeletConfiguration) string { return within(int64(*c.ContainerLogMaxWorkers), 1, 100) },
	"containerLogMonitorInterval": func(c *kubelet.KubeletConfiguration) string {
		return atLeast(c.ContainerLogMonitorInterval.Duration, 3*time.Second)
	},
	"systemReserved":          func(c *kubelet.KubeletConfiguration) string { return reserved(c.SystemReserved) },
	"kubeReserved":            func(c *kubelet.KubeletConfiguration) string { return reserved(c.KubeReserved) },
	"evictionHard":            func(c *kubelet.KubeletConfiguration) string { return hard(c.EvictionHard) },
	"evictionSoft":            func(c *kubelet.KubeletConfiguration) string { return thresholds(c.EvictionSoft) },
	"evictionMinimumReclaim":  func(c *kubelet.KubeletConfiguration) string { return reclaims(c.EvictionMinimumReclaim) },
	"evictionSoftGracePeriod": func(c *kubelet.KubeletConfiguration) string { return periods(c.EvictionSoftGracePeriod) },
	"evictionPressureTransitionPeriod": func(c *kubelet.KubeletConfiguration) string {
		return atLeast(c.EvictionPressureTransitionPeriod.Duration, time.Second)
	},
	"evictionMaxPodGracePeriod": func(c *kubelet.KubeletConfiguration) string {
		return within(int64(c.EvictionMaxPodGracePeriod), 0, 86400)
	},
	"allowedUnsafeSysctls":  func(c *kubelet.KubeletConfiguration) string { return sysctls(c.AllowedUnsafeSysctls) },
	"registryPullQPS":       func(c *kubelet.KubeletConfiguration) string { return within(int64(*c.RegistryPullQPS), 0, 10000) },
	"registryBurst":         func(c *kubelet.KubeletConfiguration) string { return within(int64(c.RegistryBurst), 1, 10000) },
	"serializeImagePulls":   func(*kubelet.KubeletConfiguration) string { return "" },
	"maxParallelImagePulls": func(c *kubelet.KubeletConfiguration) string { return within(int64(*c.MaxParallelImagePulls), 1, 100) },
	"kubeAPIQPS":            func(c *kubelet.KubeletConfiguration) string { return within(int64(*c.KubeAPIQPS), 1, 10000) },
	"kubeAPIBurst":          func(c *kubelet.KubeletConfiguration) string { return within(int64(c.KubeAPIBurst), 1, 10000) },
	"eventRecordQPS":        func(c *kubelet.KubeletConfiguration) string { return within(int64(*c.EventRecordQPS), 0, 10000) },
	"eventBurst":            func(c *kubelet.KubeletConfiguration) string { return within(int64(c.EventBurst), 1, 10000) },
	"streamingConnectionIdleTimeout": func(c *kubelet.KubeletConfiguration) string {
		return atLeast(c.StreamingConnectionIdleTimeout.Duration, time.Minute)
	},
}

// The bounds of what a container may have.
const (
	minPIDs, maxPIDs = 20, 1 << 22
	minLog           = "8193" // as upstream has it
)

func within(n, least, most int64) string {
	if n < least || n > most {
		return fmt.Sprintf("is not between %d and %d", least, most)
	}
	return ""
}

func atLeast(d, least time.Duration) string {
	if d < least {
		return "is less than " + least.String()
	}
	return ""
}

// quantity checks a number of bytes.
func quantity(text, least string) string {
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Cmp(resource.MustParse(least)) < 0 {
		return "is not a quantity of at least " + least
	}
	return ""
}

// logSize checks the size of a log: kubelet reads it as whole bytes, in 64 bits.
func logSize(text string) string {
	why := quantity(text, minLog)
	if q, err := resource.ParseQuantity(text); why == "" && err == nil {
		if _, whole := q.AsInt64(); !whole {
			return "is not a quantity of at least " + minLog + " whole bytes"
		}
	}
	return why
}

var reservable = []string{"cpu", "memory", "ephemeral-storage", "pid"}

func reserved(m map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if q, err := resource.ParseQuantity(m[name]); err != nil || q.Sign() < 0 || !slices.Contains(reservable, name) {
			return fmt.Sprintf("%q is not a quantity of one of %s", name, strings.Join(reservable, ", "))
		}
	}
	return ""
}

// EvictionFloor are the least thresholds at which kubelet ends pods: below them etcd
// and the host itself run out of room. A share says nothing about etcd's database.
var EvictionFloor = map[string]string{"memory.available": "100Mi", "nodefs.available": "2Gi", "imagefs.available": "2Gi"}

var (
	signals = []string{"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree", "pid.available"}
	share   = regexp.MustCompile(`^(100|[1-9]?[0-9](\.[0-9]+)?)%$`)
	noShare = regexp.MustCompile(`^0(\.0+)?%$`)
)

func thresholds(m map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		q, err := resource.ParseQuantity(m[name])
		if !slices.Contains(signals, name) || !share.MatchString(m[name]) && (err != nil || q.Sign() <= 0) {
			return fmt.Sprintf("%q is not a quantity or a share of one of %s", name, strings.Join(signals, ", "))
		}
	}
	return ""
}

// reclaims checks what is to be reclaimed at least: kubelet takes no quantity for that,
// but not a share of nothing.
func reclaims(m map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		q, err := resource.ParseQuantity(m[name])
		some := share.MatchString(m[name]) && !noShare.MatchString(m[name])
		if !slices.Contains(signals, name) || !some && (err != nil || q.Sign() < 0) {
			return fmt.Sprintf("%q is not a quantity or a share of one of %s", name, strings.Join(signals, ", "))
		}
	}
	return ""
}

func hard(m map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(EvictionFloor)) {
		if text, has := m[name]; has && quantity(text, EvictionFloor[name]) != "" {
			return fmt.Sprintf("%s %s: the host and its etcd need that room", name, quantity(text, EvictionFloor[name]))
		}
	}
	return thresholds(m)
}

func periods(m map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if d, err := time.ParseDuration(m[name]); err != nil || d <= 0 || !slices.Contains(signals, name) {
			return fmt.Sprintf("%q is not a time of one of %s", name, strings.Join(signals, ", "))
		}
	}
	return ""
}

// ownSysctl is a kernel parameter that each pod has for itself, by the names that kubelet
// knows: it does not start with another one.
var ownSysctl = regexp.MustCompile(`^(kernel\.((shm|msg|sem|shmall|shmmax|shmmni|shm_rmid_forced|msgmax|msgmnb|msgmni)\*?)` +
	`|(fs\.mqueue|net)\.([a-z0-9]([a-z0-9_-]*[a-z0-9])?\.)*([a-z0-9][a-z0-9_-]*)?[a-z0-9*])$`)

// maxSysctl is the length of the longest name that kubelet takes.
const maxSysctl = 253

func sysctls(list []string) string {
	for _, name := range list {
		if len(name) > maxSysctl || !ownSysctl.MatchString(name) {
			return fmt.Sprintf("%q is not a parameter that each pod has for itself: kernel.shm*, kernel.msg*, kernel.sem, fs.mqueue.* or net.*", name)
		}
	}
	return ""
}
