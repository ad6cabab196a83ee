package resolver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/holdfast/holdfast/internal/adapter/resolver"
	reconciler "github.com/holdfast/holdfast/internal/agent/network/resolver"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/resolvconf"
)

// verbVariable makes this test binary run as a program in the hosts.
const verbVariable = "HOLDFAST_TEST_RESOLVER_VERB"

// Addresses of the host, of the site's name server and of the API.
const (
	hostIP  = "10.98.0.11"
	siteIP  = "10.98.0.53"
	apiIP   = "10.98.0.5"
	domain  = "lab.example.test"
	apiName = "api-int." + domain
	// foreign is a name that only the site's name server knows.
	foreign   = "www.office.test"
	foreignIP = "192.0.2.80"
)

func child(verb string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	h := resolver.New(resolver.Options{})
	switch verb {
	case "prepend":
		changed, err := h.Prepend(ctx, resolvconf.Own{Server: netip.MustParseAddr(hostIP), Search: domain})
		fmt.Println(changed)
		return err
	case "remove":
		_, err := h.Remove(ctx)
		return err
	case "look":
		who, err := h.Writer()
		if err != nil {
			return err
		}
		servers, err := h.Servers()
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(looked{string(who), servers})
	case "dns":
		return serve(ctx, hostIP+":53", local)
	case "agent":
		return agent(ctx)
	}
	return fmt.Errorf("unknown verb %s", verb)
}

// looked is a host's view of its own resolver.
type looked struct {
	Writer  string
	Servers []netip.AddrPort
}

// agent runs the reconciler and its source as the agent does.
func agent(ctx context.Context) error {
	r := reconciler.New(reconciler.Options{})
	var mu sync.Mutex
	view := state.NetworkView{
		Settings: state.NetworkSettings{Domain: domain},
		Host:     state.HostFacts{Addresses: []netip.Addr{netip.MustParseAddr(hostIP)}},
	}
	wake := make(chan struct{}, 1)
	go func() {
		_ = r.Run(ctx, func(change func(*state.NetworkView)) {
			mu.Lock()
			defer mu.Unlock()
			change(&view)
			select {
			case wake <- struct{}{}:
			default:
			}
		})
	}()
	for ctx.Err() == nil {
		mu.Lock()
		now := view
		mu.Unlock()
		said, err := r.Reconcile(ctx, now)
		fmt.Fprintln(os.Stderr, time.Now().Format(time.StampMilli), said, now.Upstreams, now.LocalDNS, err)
		select {
		case <-ctx.Done():
		case <-wake:
		case <-time.After(30 * time.Second):
		}
	}
	return nil
}

// serve answers queries until the context ends.
func serve(ctx context.Context, at string, answer dns.HandlerFunc) error {
	servers := []*dns.Server{{Addr: at, Net: "udp", Handler: answer}, {Addr: at, Net: "tcp", Handler: answer}}
	failed := make(chan error, len(servers))
	for _, s := range servers {
		go func() { failed <- s.ListenAndServe() }()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// local is the host's own name server: it knows the API and forwards everything
// else to the site.
func local(w dns.ResponseWriter, q *dns.Msg) {
	if strings.EqualFold(q.Question[0].Name, apiName+".") {
		respond(w, q, apiIP)
		return
	}
	reply, err := dns.Exchange(q, siteIP+":53")
	if err != nil {
		reply = new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
	}
	_ = w.WriteMsg(reply)
}

// office is the site's name server.
func office(w dns.ResponseWriter, q *dns.Msg) {
	if strings.EqualFold(q.Question[0].Name, foreign+".") {
		respond(w, q, foreignIP)
		return
	}
	_ = w.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeNameError))
}

func respond(w dns.ResponseWriter, q *dns.Msg, address string) {
	reply := new(dns.Msg).SetReply(q)
	if q.Question[0].Qtype == dns.TypeA {
		rr, err := dns.NewRR(q.Question[0].Name + " 5 IN A " + address)
		if err == nil {
			reply.Answer = append(reply.Answer, rr)
		}
	}
	_ = w.WriteMsg(reply)
}
