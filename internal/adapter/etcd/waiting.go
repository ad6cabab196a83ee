package etcd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/model/state"
)

// maxAnswer bounds how much of an answer is read: etcd's metrics are some 100
// kB.
const maxAnswer = 4 << 20

// waiting asks an etcd that has had no leader since its start. Such an etcd
// serves no clients, not even reads of its own data. But its peers can ask it
// for its members, and its metrics tell whether it knows a leader.
func (c *Client) waiting(ctx context.Context) (MemberStatus, error) {
	if c.cfg.PeerURL == "" {
		return MemberStatus{}, errors.New("this host's peer URL is unknown")
	}
	var look MemberStatus
	var about metrics
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { look.Cluster, look.Members, err = c.peerMembers(ctx); return err })
	g.Go(func() (err error) { about, err = c.metrics(ctx); return err })
	if err := g.Wait(); err != nil {
		return MemberStatus{}, err
	}
	look.Member = about.member
	leader, err := about.leader(look.Members)
	look.Leader = leader
	return look, err
}

// peerMembers asks for the members as a peer does.
func (c *Client) peerMembers(ctx context.Context) (state.MemberID, []state.EtcdMember, error) {
	body, header, err := c.get(ctx, c.cfg.PeerURL+"/members")
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = body.Close() }()
	var cluster state.MemberID
	if err := cluster.UnmarshalText([]byte(header.Get("X-Etcd-Cluster-ID"))); err != nil {
		return 0, nil, fmt.Errorf("ask %s for the members: cluster id: %w", c.cfg.PeerURL, err)
	}
	members, err := readPeerMembers(io.LimitReader(body, maxAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("ask %s for the members: %w", c.cfg.PeerURL, err)
	}
	return cluster, members, nil
}

func readPeerMembers(r io.Reader) ([]state.EtcdMember, error) {
	var list []struct {
		ID      uint64 `json:"id"`
		Name    string `json:"name"`
		Learner bool   `json:"isLearner"`
	}
	if err := json.NewDecoder(r).Decode(&list); err != nil {
		return nil, err
	}
	out := make([]state.EtcdMember, 0, len(list))
	for _, m := range list {
		out = append(out, member(state.MemberID(m.ID), m.Name, m.Learner))
	}
	return sorted(out), nil
}

// metrics is the part of etcd's metrics about its role in the cluster.
type metrics struct {
	member              state.MemberID
	hasLeader, isLeader string
}

func (c *Client) metrics(ctx context.Context) (metrics, error) {
	body, _, err := c.get(ctx, c.cfg.MetricsURL+"/metrics")
	if err != nil {
		return metrics{}, err
	}
	defer func() { _ = body.Close() }()
	m, err := readMetrics(io.LimitReader(body, maxAnswer))
	if err != nil {
		return m, fmt.Errorf("read %s/metrics: %w", c.cfg.MetricsURL, err)
	}
	return m, nil
}

func readMetrics(r io.Reader) (metrics, error) {
	var m metrics
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		switch {
		case name == "etcd_server_has_leader":
			m.hasLeader = value
		case name == "etcd_server_is_leader":
			m.isLeader = value
		case strings.HasPrefix(name, `etcd_server_id{server_id="`):
			id := strings.TrimSuffix(strings.TrimPrefix(name, `etcd_server_id{server_id="`), `"}`)
			if err := m.member.UnmarshalText([]byte(id)); err != nil {
				return m, err
			}
		}
	}
	if m.member == 0 || m.hasLeader == "" || m.isLeader == "" {
		return m, errors.Join(errors.New("no etcd_server_id, etcd_server_has_leader or etcd_server_is_leader"), lines.Err())
	}
	return m, lines.Err()
}

// leader returns the member that leads. Metrics do not name it: if it is not
// this member, it is the other voter, if there is exactly one.
func (m metrics) leader(members []state.EtcdMember) (state.MemberID, error) {
	if m.hasLeader == "0" {
		return 0, nil
	}
	if m.isLeader == "1" {
		return m.member, nil
	}
	var other state.MemberID
	for _, v := range members {
		if v.ID != m.member && !v.Learner {
			if other != 0 {
				return 0, errors.New("etcd follows one of several voters and does not report yet which one")
			}
			other = v.ID
		}
	}
	if other == 0 {
		return 0, errors.New("etcd follows a leader that it does not list")
	}
	return other, nil
}

func (c *Client) get(ctx context.Context, url string) (io.ReadCloser, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, nil, fmt.Errorf("ask %s: %s", url, resp.Status)
	}
	return resp.Body, resp.Header, nil
}
