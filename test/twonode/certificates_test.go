package twonode_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestCertificatesAreRenewed(t *testing.T) {
	scenario(t, "certificates of etcd renewed", 1, func(tr *trial) {
		members := tr.members()
		tr.now()
		for _, h := range tr.hosts() {
			before, err := tr.serial(tr.Context(), h)
			if err != nil {
				tr.Fatal(err)
			}
			tr.on(h, "for c in etcd-server etcd-peer etcd-healthcheck-client; do kubeadm certs renew $c; done")
			tr.eventually(2*time.Minute, "etcd of "+h+" shows the new certificate", func() error {
				now, err := tr.serial(tr.Context(), h)
				if err == nil && now == before {
					err = errors.New("it shows the old one, " + before)
				}
				return err
			})
			tr.eventually(2*time.Minute, "two voters", func() error { return tr.twoVoters(tr.Context()) })
		}
		tr.noGapAbove(busyGap)
		tr.healthyAgain()
		tr.kept(members)
		tr.fenced(0)
	})
}

func TestCABundle(t *testing.T) {
	scenario(t, "CA bundle of etcd grows", 1, func(tr *trial) {
		members := tr.members()
		tr.now()
		for _, h := range tr.hosts() {
			tr.on(h, `cd /etc/kubernetes/pki/etcd && openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=another-ca -keyout /root/another.key -out /root/another.crt 2>/dev/null &&
				cat ca.crt /root/another.crt >ca.new && mv ca.new ca.crt`)
		}
		tr.noGapAbove(busyGap)
		pause(tr.Context(), 30*time.Second)
		tr.noGapAbove(busyGap)
		tr.healthyAgain()
		tr.kept(members)
		tr.fenced(0)
	})
}

// serial returns the serial number of the certificate that a host's etcd shows.
func (tr *trial) serial(ctx context.Context, host string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	raw, err := tr.Lab.Dial(ctx, "tcp", tr.etcdTarget(host).Address)
	if err != nil {
		return "", err
	}
	config := tr.tls.Clone()
	config.ServerName = tr.address(host)
	conn := tls.Client(raw, config)
	defer func() { _ = conn.Close() }()
	if err := conn.HandshakeContext(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", conn.ConnectionState().PeerCertificates[0].SerialNumber), nil
}
