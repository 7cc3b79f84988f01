package testkit

import (
	"encoding/binary"
	"os"
	"syscall"
)

// queryListeners is Listeners by a query to the kernel (man 7 sock_diag), for sockets that listen on the port alone.
func queryListeners(port int) (n int, err error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, syscall.NETLINK_INET_DIAG)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	defer syscall.Close(fd)
	for _, family := range []byte{syscall.AF_INET, syscall.AF_INET6} {
		found, err := dumpListeners(fd, family, port)
		if err != nil {
			return 0, err
		}
		n += found
	}
	return n, nil
}

// dumpListeners returns the number of sockets of the family that listen on the port.
func dumpListeners(fd int, family byte, port int) (n int, err error) {
	const (
		byFamily  = 20      // SOCK_DIAG_BY_FAMILY
		listening = 1 << 10 // the state TCP_LISTEN
		size      = syscall.NLMSG_HDRLEN + 56
	)
	request := make([]byte, size) // struct nlmsghdr, struct inet_diag_req_v2
	binary.NativeEndian.PutUint32(request, size)
	binary.NativeEndian.PutUint16(request[4:], byFamily)
	binary.NativeEndian.PutUint16(request[6:], syscall.NLM_F_REQUEST|syscall.NLM_F_DUMP)
	query := request[syscall.NLMSG_HDRLEN:]
	query[0], query[1] = family, syscall.IPPROTO_TCP
	binary.NativeEndian.PutUint32(query[4:], listening)
	binary.BigEndian.PutUint16(query[8:], uint16(port))
	if err := syscall.Sendto(fd, request, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return 0, os.NewSyscallError("sendto", err)
	}
	for response := make([]byte, 32<<10); ; {
		length, _, err := syscall.Recvfrom(fd, response, 0)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return 0, os.NewSyscallError("recvfrom", err)
		}
		messages, err := syscall.ParseNetlinkMessage(response[:length])
		if err != nil {
			return 0, err
		}
		for _, m := range messages {
			switch m.Header.Type {
			case byFamily:
				n++
			case syscall.NLMSG_DONE:
				return n, nil
			case syscall.NLMSG_ERROR:
				return 0, syscall.EPROTO
			}
		}
	}
}
