package dualstack

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// ServiceRange is the argument of a control plane's programs that names the networks of Services.
const (
	ServiceRange = "--service-cluster-ip-range="
	podRange     = "--cluster-cidr="
	maskSize     = "--node-cidr-mask-size"
)

// Server returns the manifest of an API server with both families.
func Server(manifest []byte, p Plan) ([]byte, error) {
	return arguments(manifest, map[string]string{ServiceRange: p.Services})
}

// Manager returns the manifest of a controller manager with both families: as kubeadm makes it
// of a site that was installed with both. All else of it stays as upgrades and people left it.
func Manager(manifest []byte, p Plan) ([]byte, error) {
	out, err := arguments(manifest, map[string]string{ServiceRange: p.Services, podRange: p.Pods.CIDR})
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	found := false
	for line := range strings.Lines(string(out)) {
		indent, size, is := strings.Cut(line, "- "+maskSize+"=")
		switch {
		case is:
			_, _ = fmt.Fprintf(&text, "%[1]s- %[2]s-%[3]s=%[4]s%[1]s- %[2]s-%[5]s=%[6]d\n", indent, maskSize, family(p.Pods.CIDR, false), size, family(p.Pods.CIDR, true), p.Pods.HostPrefix)
			found = true
		default:
			found = found || strings.Contains(line, "- "+maskSize+"-"+family(p.Pods.CIDR, true)+"=")
			text.WriteString(line)
		}
	}
	if !found {
		return nil, fmt.Errorf("it has no argument %s", maskSize)
	}
	return []byte(text.String()), nil
}

// family names the family of a network as arguments do, or the other one.
func family(cidr string, own bool) string {
	n, err := netip.ParsePrefix(cidr)
	if err == nil && n.Addr().Is4() == own {
		return "ipv4"
	}
	return "ipv6"
}

// arguments adds a network to each argument of a manifest that names networks.
func arguments(manifest []byte, add map[string]string) ([]byte, error) {
	var text strings.Builder
	missing := make(map[string]bool, len(add))
	for name := range add {
		missing[name] = true
	}
	for line := range strings.Lines(string(manifest)) {
		for name, network := range add {
			before, value, is := strings.Cut(line, "- "+name)
			if !is || strings.TrimSpace(before) != "" {
				continue
			}
			delete(missing, name)
			line = before + "- " + name + with(strings.TrimRight(value, "\n"), network) + "\n"
		}
		text.WriteString(line)
	}
	for name := range missing {
		return nil, fmt.Errorf("it has no argument %s", strings.TrimSuffix(name, "="))
	}
	return []byte(text.String()), nil
}

// with returns a list with one more word at its end.
func with(list, word string) string {
	words := strings.Split(list, ",")
	if slices.Contains(words, word) {
		return list
	}
	return list + "," + word
}

// NodeIP returns kubelet's flags with other addresses of its host.
func NodeIP(flags []byte, addresses []netip.Addr) ([]byte, error) {
	const flag = "--node-ip="
	var words []string
	for _, a := range addresses {
		words = append(words, a.String())
	}
	before, rest, is := strings.Cut(string(flags), flag)
	if !is {
		return nil, fmt.Errorf("it has no flag %s", strings.TrimSuffix(flag, "="))
	}
	end := strings.IndexAny(rest, " \"\n")
	if end < 0 {
		end = len(rest)
	}
	return []byte(before + flag + strings.Join(words, ",") + rest[end:]), nil
}

// Kubeadm returns kubeadm's ClusterConfiguration with both families: a control plane that joins
// gets its manifests from it.
func Kubeadm(text string, p Plan) (string, error) {
	var c map[string]any
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		return "", err
	}
	n, _ := c["networking"].(map[string]any)
	pods, _ := n["podSubnet"].(string)
	services, _ := n["serviceSubnet"].(string)
	if pods == "" || services == "" {
		return "", fmt.Errorf("it has no networking.podSubnet or no networking.serviceSubnet")
	}
	n["podSubnet"], n["serviceSubnet"] = with(pods, p.Pods.CIDR), with(services, p.Services)
	manager, _ := c["controllerManager"].(map[string]any)
	args, _ := manager["extraArgs"].([]any)
	args, err := masks(args, p)
	if err != nil {
		return "", err
	}
	manager["extraArgs"] = args
	out, err := yaml.Marshal(c)
	return string(out), err
}

// masks replaces the argument with the size of a host's share by one for each family.
func masks(args []any, p Plan) ([]any, error) {
	name := strings.TrimPrefix(maskSize, "--")
	arg := func(family, value string) any { return map[string]any{"name": name + "-" + family, "value": value} }
	for i, a := range args {
		is, _ := a.(map[string]any)
		value, _ := is["value"].(string)
		switch is["name"] {
		case name + "-" + family(p.Pods.CIDR, true):
			return args, nil
		case name:
			both := []any{arg(family(p.Pods.CIDR, false), value), arg(family(p.Pods.CIDR, true), fmt.Sprint(p.Pods.HostPrefix))}
			return slices.Concat(args[:i], both, args[i+1:]), nil
		}
	}
	return nil, fmt.Errorf("the controller manager has no argument %s", name)
}

// Proxy returns kube-proxy's configuration with both families.
func Proxy(text string, p Plan) (string, error) {
	var c map[string]any
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		return "", err
	}
	pods, _ := c["clusterCIDR"].(string)
	if pods == "" {
		return "", fmt.Errorf("it has no clusterCIDR")
	}
	c["clusterCIDR"] = with(pods, p.Pods.CIDR)
	out, err := yaml.Marshal(c)
	return string(out), err
}
