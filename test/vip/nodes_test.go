package vip_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/adapter/haproxy"
	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/haproxy"
	"github.com/holdfast/holdfast/internal/render/keepalived"
	"github.com/holdfast/holdfast/internal/testkit/netnstest"
	"github.com/holdfast/holdfast/test/labsite"
)

// The node that joins and leaves: an object of the API, with addresses that the
// lab's switch has meanwhile. It is enough to show the hosts' reactions: they
// balance to it, send it adverts and know its name.
const (
	visitor       = "visitor"
	visitorNumber = 29
)

// The promises for the propagation.
const (
	backendMost = time.Second
	peerMost    = 2 * time.Second
	nameMost    = time.Second
	seenWithin  = 30 * time.Second
)

func TestANodeJoinsAndLeaves(t *testing.T) {
	event(t, "control plane joins and leaves", usualRuns, func(tr *trial) {
		v := newVisitor(tr)
		defer v.leaveNothing()
		since := tr.Now()
		if err := tr.API.Create(tr.Context(), v.node()); err != nil {
			tr.Fatal(err)
		}
		v.seen("joined", since, true)
		since = time.Now()
		if err := tr.API.Delete(tr.Context(), v.node()); err != nil {
			tr.Fatal(err)
		}
		v.seen("left", since, false)
		tr.Steady("when the node is gone")
		tr.Noticed("", since)
	})
}

type visitorOf struct {
	*trial
	addresses []netip.Addr
	adverts   *adverts
	// roots holds the path of each control plane's files.
	roots map[string]string
}

func newVisitor(tr *trial) *visitorOf {
	tr.Helper()
	v := &visitorOf{trial: tr, roots: map[string]string{}}
	for _, h := range tr.ControlPlanes() {
		root, err := tr.Lab.Root(tr.Context(), tr.Power, h)
		if err != nil {
			tr.Fatal(err)
		}
		v.roots[h] = root
	}
	for _, p := range tr.Lab.Layout.Machine.Prefixes {
		base := strings.TrimSuffix(p.Addr().String(), "0")
		v.addresses = append(v.addresses, netip.MustParseAddr(fmt.Sprintf("%s%d", base, visitorNumber)))
	}
	v.leaveNothing() // from an interrupted run
	if err := v.onSwitch(func(nl *netlink.Handle, link netlink.Link, a *netlink.Addr) error { return nl.AddrReplace(link, a) }); err != nil {
		tr.Fatal(err)
	}
	var err error
	if v.adverts, err = listen(tr.Lab.Layout.Switch(), v.addresses); err != nil {
		tr.Fatal(err)
	}
	return v
}

// node returns a Node with everything that a joining node reports. It takes no
// pods.
func (v *visitorOf) node() *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: visitor, Labels: map[string]string{
		state.LabelControlPlane: "", state.LabelMaster: "", corev1.LabelHostname: visitor,
	}}}
	n.Spec.Unschedulable = true
	n.Spec.Taints = []corev1.Taint{{Key: "holdfast.test/visitor", Effect: corev1.TaintEffectNoSchedule}}
	for _, a := range v.addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a.String()})
	}
	return n
}

// leaveNothing removes the visitor.
func (v *visitorOf) leaveNothing() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.Context()), 30*time.Second)
	defer cancel()
	_ = v.API.Delete(ctx, v.node()) // it is gone, or the case has failed already
	if v.adverts != nil {
		v.adverts.close()
	}
	_ = v.onSwitch(func(nl *netlink.Handle, link netlink.Link, a *netlink.Addr) error { return nl.AddrDel(link, a) })
}

// onSwitch does something with each of the visitor's addresses on the lab's
// switch.
func (v *visitorOf) onSwitch(do func(*netlink.Handle, netlink.Link, *netlink.Addr) error) error {
	ns, err := netns.GetFromName(v.Lab.Layout.Switch())
	if err != nil {
		return err
	}
	defer func() { _ = ns.Close() }()
	nl, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer nl.Close()
	link, err := nl.LinkByName(v.Lab.Layout.Machine.Bridge)
	if err != nil {
		return err
	}
	var errs []error
	for _, a := range v.addresses {
		addr, err := netlink.ParseAddr(netip.PrefixFrom(a, a.BitLen()).String())
		if err == nil {
			addr.Flags = unix.IFA_F_NODAD
			err = do(nl, link, addr)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// seen measures, for each part, the time of the slowest host.
func (v *visitorOf) seen(what string, since time.Time, there bool) {
	v.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	took := map[string]time.Duration{}
	var errs []error
	follow := func(part string, check func() (bool, error)) {
		all.Go(func() {
			err := labsite.Until(v.Context(), seenWithin, 20*time.Millisecond, func() error {
				is, err := check()
				if err == nil && is != there {
					err = fmt.Errorf("there: %t", is)
				}
				return err
			})
			at := time.Since(since)
			mu.Lock()
			defer mu.Unlock()
			took[part] = max(took[part], at)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: not within %s: %w", part, seenWithin, err))
			}
		})
	}
	for _, h := range v.ControlPlanes() {
		follow("haproxy", func() (bool, error) { return v.balanced(h) })
		follow("DNS name", func() (bool, error) { return v.named(h) })
		follow("VRRP peers", func() (bool, error) { return v.peered(h) })
	}
	if there {
		follow("first advert", func() (bool, error) { return v.adverts.any(since), nil })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		v.Fatal(err)
	}
	for part, most := range map[string]time.Duration{"haproxy": backendMost, "DNS name": nameMost, "VRRP peers": peerMost, "first advert": peerMost} {
		if at, measured := took[part]; measured {
			v.Trial.Took(what+", "+part, at)
			v.Trial.Promise(what+", "+part, most)
		}
	}
}

// balanced reports whether haproxy itself lists the visitor's API server.
func (v *visitorOf) balanced(host string) (bool, error) {
	servers, err := haproxy.Client{Socket: v.roots[host] + render.HostPaths.Socket}.Servers(v.Context())
	return slices.ContainsFunc(servers, func(s apilb.Server) bool { return apilb.NodeOf(s.Name) == visitor }), err
}

// named reports whether the name server of a host, at its first address, knows
// the visitor.
func (v *visitorOf) named(host string) (bool, error) {
	h, _ := v.Lab.Layout.Host(host)
	ctx, cancel := context.WithTimeout(v.Context(), time.Second)
	defer cancel()
	conn, err := v.Lab.Dial(ctx, "udp", net.JoinHostPort(h.Machine.Addresses[0].Addr().String(), "53"))
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	kind := dns.TypeA
	if v.addresses[0].Is6() {
		kind = dns.TypeAAAA
	}
	query := new(dns.Msg)
	query.SetQuestion(visitor+"."+v.Lab.Layout.ClusterDomain()+".", kind)
	c := &dns.Conn{Conn: conn}
	if err := c.WriteMsg(query); err != nil {
		return false, err
	}
	answer, err := c.ReadMsg()
	return err == nil && len(answer.Answer) > 0, err
}

// peered reports whether keepalived of a host is configured with the visitor as
// a peer. The adverts show whether keepalived follows.
func (v *visitorOf) peered(host string) (bool, error) {
	text, err := os.ReadFile(v.roots[host] + keepalived.ConfigPath)
	return slices.Contains(strings.Fields(string(text)), v.addresses[0].String()), err
}

// adverts records the VRRP adverts that the visitor gets.
type adverts struct {
	conns []net.PacketConn
	all   sync.WaitGroup

	mu   sync.Mutex
	last time.Time
}

// listen receives VRRP at addresses of a network namespace.
func listen(namespace string, addresses []netip.Addr) (*adverts, error) {
	a := &adverts{}
	for _, addr := range addresses {
		network := "ip6:112"
		if addr.Is4() {
			network = "ip4:112"
		}
		conn, err := listenIn(namespace, network, addr.String())
		if err != nil {
			a.close()
			return nil, err
		}
		a.conns = append(a.conns, conn)
		a.all.Go(func() { a.hear(conn) })
	}
	return a, nil
}

// listenIn opens a socket in a network namespace.
func listenIn(namespace, network, address string) (conn net.PacketConn, err error) {
	ns, err := netns.GetFromName(namespace)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ns.Close() }()
	err = netnstest.Do(ns, func() (err error) {
		conn, err = (&net.ListenConfig{}).ListenPacket(context.Background(), network, address)
		return err
	})
	return conn, err
}

func (a *adverts) hear(conn net.PacketConn) {
	b := make([]byte, 1500)
	for {
		if _, _, err := conn.ReadFrom(b); err != nil {
			return
		}
		a.mu.Lock()
		a.last = time.Now()
		a.mu.Unlock()
	}
}

// any reports whether an advert arrived after a moment.
func (a *adverts) any(after time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last.After(after)
}

func (a *adverts) close() {
	for _, c := range a.conns {
		_ = c.Close()
	}
	a.all.Wait()
}
