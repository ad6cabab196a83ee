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
		for _, h := range tr.hosts() {
			tr.sameProcess(h) // etcd reads certificates with each connection
		}
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
		for _, h := range tr.hosts() {
			tr.eventually(2*time.Minute, "etcd of "+h+" takes a client of the other authority", func() error { return tr.takesAnother(h) })
		}
		tr.healthyAgain()
		tr.kept(members)
		tr.fenced(0)
	})
}

// takesAnother returns nil if the etcd of a host takes a client whose certificate the
// authority signed that was added to its bundle.
func (tr *trial) takesAnother(host string) error {
	_, err := tr.Sh(tr.Context(), host, `cd /root && openssl req -newkey rsa:2048 -nodes -subj /O=system:masters/CN=another-client -keyout client.key -out client.csr 2>/dev/null &&
		printf 'extendedKeyUsage=clientAuth\n' >client.ext &&
		openssl x509 -req -in client.csr -CA another.crt -CAkey another.key -set_serial 2 -days 1 -extfile client.ext -out client.crt 2>/dev/null &&
		curl -sS --fail --max-time 5 --cacert /etc/kubernetes/pki/etcd/ca.crt --cert client.crt --key client.key -d '{"key":"YQ=="}' https://127.0.0.1:2379/v3/kv/range`)
	return err
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
