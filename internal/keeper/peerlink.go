package keeper

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// peerTime bounds one question to the peer's daemon, over all networks.
	peerTime = 400 * time.Millisecond
	// maxWord bounds how much of a question or an answer is read, in bytes.
	maxWord = 16 << 10
	// mostAddresses bounds how many addresses of a host are told and asked.
	mostAddresses = 8
)

// pairTLS proves each of two hosts to the other by the certificates that their
// etcds use for each other; only control planes have one. It checks names, not
// addresses: the hosts talk over any network that joins them.
type pairTLS struct {
	peer          string // its node name
	ca, cert, key string // files, read again for each connection
}

func (p pairTLS) config() (*tls.Config, error) {
	cfg, err := etcd.Identity{CA: p.ca, Cert: p.cert, Key: p.key}.Config()
	if err != nil {
		return nil, fmt.Errorf("certificate for the peer: %w", err)
	}
	cfg.MinVersion, cfg.ServerName = tls.VersionTLS13, p.peer
	cfg.ClientCAs, cfg.ClientAuth = cfg.RootCAs, tls.RequireAndVerifyClientCert
	cfg.VerifyConnection = func(cs tls.ConnectionState) error { return cs.PeerCertificates[0].VerifyHostname(p.peer) }
	return cfg, nil
}

// serve answers the peer until the context ends. A host that cannot listen
// takes part in a race by its own evidence alone.
func (p pairTLS) serve(ctx context.Context, port int, answer func(back bool) state.RaceAnswer, log *slog.Logger) error {
	return lasting(ctx, log, "cannot listen for the peer", func() error { return p.serveOnce(ctx, port, answer) })
}

func (p pairTLS) serveOnce(ctx context.Context, port int, answer func(back bool) state.RaceAnswer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /"+state.RacePeerPath, func(w http.ResponseWriter, q *http.Request) {
		reply(w, answer(q.URL.Query().Has(state.RaceBack)))
	})
	server := &http.Server{
		Handler: mux, ReadHeaderTimeout: 2 * time.Second, ReadTimeout: 2 * time.Second, WriteTimeout: 2 * time.Second,
		IdleTimeout: 10 * time.Second, MaxHeaderBytes: maxWord,
		ErrorLog: log.New(io.Discard, "", 0), // connections from foreign hosts are not worth a log line
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	configs := &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return p.config() }}
	return server.Serve(tls.NewListener(listener, configs))
}

// ask asks the peer at all addresses at once and returns the first answer.
func (p pairTLS) ask(ctx context.Context, port int, addresses []netip.Addr, back bool) (state.RaceAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, peerTime)
	defer cancel()
	cfg, err := p.config()
	if err != nil {
		return state.RaceAnswer{}, err
	}
	type word struct {
		answer state.RaceAnswer
		err    error
	}
	words := make(chan word, len(addresses))
	var group sync.WaitGroup
	for _, a := range addresses {
		group.Go(func() {
			answer, err := askAt(ctx, cfg, netip.AddrPortFrom(a, uint16(port)), back) //nolint:gosec // a port
			words <- word{answer, err}
		})
	}
	go func() { group.Wait(); close(words) }()
	errs := []error{errors.New("the peer answers at none of its addresses")}
	for w := range words {
		if w.err == nil {
			return w.answer, nil
		}
		errs = append(errs, w.err)
	}
	return state.RaceAnswer{}, errors.Join(errs...)
}

func askAt(ctx context.Context, cfg *tls.Config, at netip.AddrPort, back bool) (out state.RaceAnswer, err error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: cfg}}
	where := "https://" + at.String() + "/" + state.RacePeerPath
	if back {
		where += "?" + state.RaceBack
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, http.NoBody)
	if err != nil {
		return out, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return out, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("%s answered %s", at, resp.Status)
	}
	return readWord(resp.Body)
}

func readWord(r io.Reader) (out state.RaceAnswer, err error) {
	err = json.NewDecoder(io.LimitReader(r, maxWord)).Decode(&out)
	return out, err
}
