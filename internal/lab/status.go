package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// lookPatience bounds each look into a host, so that a broken lab still has a
// status.
const lookPatience = 3 * time.Second

// Status is the state of a lab as a whole. Notes lists what could not be read.
type Status struct {
	Name   string       `json:"name"`
	Daemon DaemonStatus `json:"daemon"`
	// Networks are the machine networks that are plugged in: others after 'lab move'.
	Networks []netip.Prefix `json:"machineNetworks"`
	// Installed holds, per host, the current step of its installation.
	Installed map[string]string `json:"installed,omitempty"`
	// VIPs holds, per virtual address, the names of its holders: exactly one
	// once settled.
	VIPs map[string][]string `json:"vips,omitempty"`
	Etcd []EtcdMember        `json:"etcd,omitempty"`
	// Pacemaker is the cluster manager's own summary, if there is one.
	Pacemaker string   `json:"pacemaker,omitempty"`
	Nodes     []Node   `json:"nodes,omitempty"`
	Notes     []string `json:"notes,omitempty"`
}

// EtcdMember is one member of the site's etcd.
type EtcdMember struct {
	Name string `json:"name"`
	// ID is hexadecimal, as etcdctl shows it.
	ID string `json:"id"`
	// Role is leader, follower, learner, or unknown if the member does not
	// answer.
	Role string `json:"role"`
}

// Node is a node of the cluster.
type Node struct {
	Name  string `json:"name"`
	Ready string `json:"ready"`
	Roles string `json:"roles"`
}

// Status returns the status of a lab, for which it looks into the lab's hosts.
func (b *Lab) Status(ctx context.Context, c *Client) (Status, error) {
	st, err := c.Status(ctx)
	if err != nil {
		return Status{}, err
	}
	s := Status{Name: b.Layout.Spec.Name, Daemon: st, Networks: b.Layout.MachineNetworks(), Installed: map[string]string{}, VIPs: map[string][]string{}}
	if hosts, err := b.Progress(ctx, c); err == nil && !b.Options.Spec.Bare {
		for _, h := range hosts {
			s.Installed[h.Name] = h.Doing()
		}
	}
	b.lookForVIPs(&s)
	b.lookForTrouble(st.Hosts, &s)
	for _, h := range st.Hosts {
		if h.PID != 0 && h.Role != "worker" && exists(fmt.Sprintf("/proc/%d/root/etc/kubernetes/admin.conf", h.PID)) {
			b.lookInside(ctx, h, &s)
		}
	}
	return s, nil
}

// Holders names the hosts whose NICs have an address.
func (b *Lab) Holders(vip netip.Addr) []string {
	holders := []string{}
	for _, h := range b.Layout.Hosts {
		if holds(h, vip) {
			holders = append(holders, h.Name)
		}
	}
	return holders
}

// lookForVIPs finds the holders by the addresses of each host's NIC.
func (b *Lab) lookForVIPs(s *Status) {
	for _, vip := range slices.Concat(b.Layout.APIVIPs, b.Layout.IngressVIPs) {
		s.VIPs[vip.String()] = b.Holders(vip)
	}
}

func holds(h Host, vip netip.Addr) bool {
	nl, err := namespace(h.Namespace).handle()
	if err != nil {
		return false
	}
	defer nl.Close()
	list, err := nl.AddrList(nil, 0)
	if err != nil {
		return false
	}
	for _, a := range list {
		// On lo it lingers on a host that has lost it (decide/vrrp.Lingers).
		if ip, ok := netip.AddrFromSlice(a.IP); ok && ip.Unmap() == vip && a.LinkIndex != loopbackIndex {
			return true
		}
	}
	return false
}

// loopbackIndex is the number of lo in each network namespace.
const loopbackIndex = 1

// lookInside asks one control plane for the parts that the status still lacks.
func (b *Lab) lookInside(ctx context.Context, h HostStatus, s *Status) {
	if len(s.Etcd) == 0 {
		s.take(h.Name+": etcd", lookEtcd(ctx, h.PID, &s.Etcd))
	}
	if len(s.Nodes) == 0 {
		s.take(h.Name+": nodes", lookNodes(ctx, h.PID, &s.Nodes))
	}
	if s.Pacemaker == "" && exists(fmt.Sprintf("/proc/%d/root/etc/corosync/corosync.conf", h.PID)) {
		out, err := look(ctx, h.PID, "crm_mon -1 --inactive")
		s.Pacemaker = strings.TrimSpace(string(out))
		s.take(h.Name+": pacemaker", err)
	}
}

func (s *Status) take(what string, err error) {
	if err != nil {
		s.Notes = append(s.Notes, what+": "+brief(err))
	}
}

// brief returns the last line of a failed command's output: the cause, without
// the long command line.
func brief(err error) string {
	text := err.Error()
	if run, ok := errors.AsType[*host.RunError](err); ok && run.Output != "" {
		text = run.Output
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

func look(ctx context.Context, pid int, script string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	return output(ctx, pid, "sh", "-c", "PATH=/usr/local/bin:$PATH; "+script)
}

// etcdctl is the command line with the keys that kubeadm gives every control
// plane.
const etcdctl = "etcdctl --endpoints https://localhost:2379 --cacert /etc/kubernetes/pki/etcd/ca.crt " +
	"--cert /etc/kubernetes/pki/etcd/server.crt --key /etc/kubernetes/pki/etcd/server.key --command-timeout 2s "

func lookEtcd(ctx context.Context, pid int, members *[]EtcdMember) error {
	out, err := look(ctx, pid, etcdctl+"-w json member list --consistency=s")
	if err != nil {
		return err
	}
	leader, err := look(ctx, pid, etcdctl+"-w json endpoint status")
	if err != nil {
		return err
	}
	*members, err = parseEtcd(out, leader)
	return err
}

// parseEtcd joins etcdctl's list of members with the leader that one endpoint
// sees. IDs are 64 bits wide and must not pass through floating point.
func parseEtcd(memberList, endpointStatus []byte) ([]EtcdMember, error) {
	var list struct {
		Members []struct {
			ID        uint64 `json:"ID"`
			Name      string `json:"name"`
			IsLearner bool   `json:"isLearner"`
		} `json:"members"`
	}
	if err := json.Unmarshal(memberList, &list); err != nil {
		return nil, fmt.Errorf("list of etcd members: %w", err)
	}
	var status []struct {
		Status struct {
			Leader uint64 `json:"leader"`
		} `json:"Status"`
	}
	if err := json.Unmarshal(endpointStatus, &status); err != nil {
		return nil, fmt.Errorf("status of etcd: %w", err)
	}
	out := make([]EtcdMember, 0, len(list.Members))
	for _, m := range list.Members {
		role := "follower"
		switch {
		case m.IsLearner:
			role = "learner"
		case len(status) == 0 || status[0].Status.Leader == 0:
			role = "unknown"
		case status[0].Status.Leader == m.ID:
			role = "leader"
		}
		out = append(out, EtcdMember{Name: m.Name, ID: fmt.Sprintf("%x", m.ID), Role: role})
	}
	return out, nil
}

func lookNodes(ctx context.Context, pid int, nodes *[]Node) error {
	out, err := look(ctx, pid, "kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 2s get nodes --no-headers")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) >= 3 {
			*nodes = append(*nodes, Node{Name: f[0], Ready: f[1], Roles: f[2]})
		}
	}
	return nil
}
