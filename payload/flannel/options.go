package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"os"
	"strings"

	"github.com/flannel-io/flannel/pkg/ip"
	"k8s.io/klog/v2"
)

// options holds the command line. The flags have flannel's own names, so that
// its documentation and manifests apply.
type options struct {
	interfaces       []string
	kubeconfig       string
	annotationPrefix string
	netConf          string
	subnetFile       string
	masquerade       bool
	// resyncSeconds is the interval at which the rules are checked, and written
	// again if somebody removed them.
	resyncSeconds int
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("flanneld", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Func("iface", "interface (name or address) to the other hosts; of several the first that exists", func(s string) error {
		o.interfaces = append(o.interfaces, s)
		return nil
	})
	flags.StringVar(&o.kubeconfig, "kubeconfig-file", "", "kubeconfig; empty inside a pod")
	flags.StringVar(&o.annotationPrefix, "kube-annotation-prefix", "flannel.alpha.coreos.com", "prefix of the Node annotations")
	flags.StringVar(&o.netConf, "net-config-path", "/etc/kube-flannel/net-conf.json", "network configuration")
	flags.StringVar(&o.subnetFile, "subnet-file", "/run/flannel/subnet.env", "file with this host's subnets, for the CNI configuration")
	flags.BoolVar(&o.masquerade, "ip-masq", false, "masquerade traffic from pods to the outside")
	flags.IntVar(&o.resyncSeconds, "iptables-resync", 5, "seconds between two checks of the rules")
	kube := flags.Bool("kube-subnet-mgr", true, "take subnets from the Kubernetes nodes; must be true")
	logging := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(logging)
	v := logging.Lookup("v")
	flags.Var(v.Value, v.Name, v.Usage)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if !*kube {
		err := errors.New("flanneld: built without etcd, --kube-subnet-mgr=false is not possible")
		_, _ = fmt.Fprintln(out, err)
		return o, err
	}
	return o, nil
}

// lastSubnets holds the subnets that the previous run wrote down, zero if it
// wrote none.
type lastSubnets struct {
	network4, subnet4 ip.IP4Net
	network6, subnet6 ip.IP6Net
}

// readLastSubnets reads the subnet file of an earlier run. A missing file means
// that there was no run since the host booted, and is no error.
func readLastSubnets(path string) (lastSubnets, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return parseSubnets(nil), err
	}
	return parseSubnets(data), nil
}

func parseSubnets(data []byte) lastSubnets {
	zero6 := ip.IP6Net{IP: (*ip.IP6)(big.NewInt(0))}
	last := lastSubnets{network6: zero6, subnet6: zero6}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), "=")
		// Several networks may be listed; the first stands for the host's own.
		first, _, _ := strings.Cut(value, ",")
		_, cidr, err := net.ParseCIDR(strings.TrimSpace(first))
		if err != nil {
			continue
		}
		switch key {
		case "FLANNEL_NETWORK":
			last.network4 = ip.FromIPNet(cidr)
		case "FLANNEL_SUBNET":
			last.subnet4 = ip.FromIPNet(cidr)
		case "FLANNEL_IPV6_NETWORK":
			last.network6 = ip.FromIP6Net(cidr)
		case "FLANNEL_IPV6_SUBNET":
			last.subnet6 = ip.FromIP6Net(cidr)
		}
	}
	return last
}
