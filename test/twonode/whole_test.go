package twonode_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/model/state"
)

// whole returns what a cluster lacks to be whole: two voters that both answer,
// both records a pair, both API servers ready.
func (s *site) whole(ctx context.Context) error {
	return errors.Join(s.twoVoters(ctx), s.bothPair(ctx), s.apiReady(ctx))
}

// twoVoters asks each member separately.
func (s *site) twoVoters(ctx context.Context) error {
	var errs []error
	for _, h := range s.hosts() {
		errs = append(errs, s.votersOf(ctx, h))
	}
	return errors.Join(errs...)
}

func (s *site) votersOf(ctx context.Context, host string) error {
	return s.member(ctx, host, func(ctx context.Context, c *clientv3.Client) error {
		list, err := c.MemberList(ctx)
		if err != nil {
			return fmt.Errorf("members, asked of %s: %w", host, err)
		}
		voters := 0
		for _, m := range list.Members {
			if !m.IsLearner && m.Name != "" {
				voters++
			}
		}
		if voters != 2 || len(list.Members) != 2 {
			return fmt.Errorf("%s knows %d voters of %d members", host, voters, len(list.Members))
		}
		return nil
	})
}

func (s *site) bothPair(ctx context.Context) error {
	var errs []error
	for _, h := range s.hosts() {
		errs = append(errs, s.recordIs(ctx, h, state.EtcdPair))
	}
	return errors.Join(errs...)
}

// recordIs returns an error with a host's state if its record is in none of the
// wanted ones.
func (s *site) recordIs(ctx context.Context, host string, want ...state.EtcdState) error {
	r, err := s.Etcd(ctx, host)
	if err != nil {
		return fmt.Errorf("report of %s: %w", host, err)
	}
	if !r.Snapshot.Record.Known || !slices.Contains(want, r.Snapshot.Record.Value.State) {
		return fmt.Errorf("%s is %s, not %v: %s: %s %s", host, r.Snapshot.Record.Value.State, want, r.Verdict.Rule, r.Verdict.Reason, r.Problem)
	}
	return nil
}

func (s *site) apiReady(ctx context.Context) error {
	out, err := s.kubectl(ctx, "get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status} {end}`)
	if err != nil {
		return err
	}
	if n := strings.Count(out, "=True"); n != len(s.hosts()) {
		return fmt.Errorf("nodes: %s", out)
	}
	return nil
}

// kubectl runs kubectl against the API's virtual address.
func (s *site) kubectl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	return s.Holdfast(ctx, append([]string{"lab", "kubectl", "--name", *labName, "--", "--request-timeout=5s"}, args...)...)
}

// sameHash compares both members at a revision that both have.
func (s *site) sameHash(ctx context.Context) error {
	var revisions []int64
	for _, h := range s.hosts() {
		st, err := s.etcdStatus(ctx, h)
		if err != nil {
			return err
		}
		revisions = append(revisions, st.Header.Revision)
	}
	at := slices.Min(revisions)
	var hashes []string
	for _, h := range s.hosts() {
		hash, compacted, err := s.hash(ctx, h, at)
		if err != nil {
			return fmt.Errorf("hash of %s at revision %d: %w", h, at, err)
		}
		hashes = append(hashes, fmt.Sprintf("%x, compacted at %d", hash, compacted))
	}
	if hashes[0] != hashes[1] {
		return fmt.Errorf("the members differ at revision %d: %v", at, hashes)
	}
	return nil
}

// fences returns the fences that the hosts carried out since a moment, as they
// recorded them. It leaves out hosts that are off.
func (s *site) fences(ctx context.Context, since time.Time) ([]state.FenceEntry, error) {
	var out []state.FenceEntry
	for _, h := range s.hosts() {
		root, err := s.Lab.Root(ctx, s.Power, h)
		if err != nil {
			continue
		}
		records, err := records.Files{Root: root}.Fences()
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if r.Off && r.Time.After(since) && (r.Action == "off" || r.Action == "reboot") {
				out = append(out, r)
			}
		}
	}
	return out, nil
}
