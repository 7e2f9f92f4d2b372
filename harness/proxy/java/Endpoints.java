package fencepost.proxy;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.ProduceResponseData;
import org.apache.kafka.common.protocol.ApiMessage;

/**
 * The listeners, and the addresses of brokers in answers that become those of listeners: of Metadata, FindCoordinator and
 * DescribeCluster, and those that come with errors since KIP-951.
 */
final class Endpoints {
    private static final Set<String> APIS =
        Set.of("Metadata", "FindCoordinator", "DescribeCluster", "Produce", "Fetch", "ShareFetch", "ShareAcknowledge");
    private static final short NAMED_BY_PRODUCE = 10; // the first versions with brokers
    private static final short NAMED_BY_FETCH = 16;
    private static final int MOST = 1000; // listeners: each has a thread
    private static final List<String> LISTS = List.of("brokers", "coordinators", "nodeEndpoints");
    final List<Endpoint> all = new CopyOnWriteArrayList<>();
    private final Map<Class<?>, Map<String, Method>> methods = new ConcurrentHashMap<>();
    private final Versions versions = new Versions();
    private final Process process;

    Endpoints(Process process) {
        this.process = process;
    }

    Endpoint add(String node, Address listen, Address upstream) throws IOException {
        Endpoint endpoint = new Endpoint(process, node, listen, upstream);
        all.add(endpoint);
        process.threads.start("listener " + node, endpoint::accept);
        return endpoint;
    }

    /** Puts listeners into an answer for the brokers that it names, unless the traffic is redirected without this. */
    void rewrite(Message answer) {
        if (!process.config.rewrite) {
            return;
        }
        if (answer.type == ApiMessageType.API_VERSIONS) {
            versions.lower(answer, APIS);
            return;
        }
        if (!APIS.contains(answer.api()) || namesNone(answer)) {
            return;
        }
        ApiMessage body = answer.body();
        boolean changed = place(body);
        for (String name : LISTS) {
            if (call(body, name) instanceof Iterable<?> places) {
                for (Object one : places) {
                    changed |= place(one);
                }
            }
        }
        if (changed) {
            answer.replace(body);
        }
    }

    /** True for nearly all answers with records, and those that cannot be read. */
    private static boolean namesNone(Message answer) {
        if (answer.type == ApiMessageType.PRODUCE && answer.version < NAMED_BY_PRODUCE || answer.type == ApiMessageType.FETCH && answer.version < NAMED_BY_FETCH) {
            return true;
        }
        ApiMessage body = answer.body();
        return body == null || body instanceof ProduceResponseData produced && produced.nodeEndpoints().isEmpty()
            || body instanceof FetchResponseData fetched && fetched.nodeEndpoints().isEmpty();
    }

    private boolean place(Object object) {
        Object host = call(object, "host");
        if (!(host instanceof String text) || text.isEmpty() || !(call(object, "port") instanceof Integer port) || port < 0) {
            return false;
        }
        Object id = call(object, call(object, "nodeId") == null ? "brokerId" : "nodeId");
        Address listener = of(new Address(text, port), "n" + id);
        call(object, "setHost", listener.host());
        call(object, "setPort", listener.port());
        return true;
    }

    /** The address at which clients reach a broker; a new listener where there is none yet. */
    private synchronized Address of(Address upstream, String node) {
        Endpoint endpoint = all.stream().filter(one -> one.upstream.equals(upstream)).findFirst().orElse(null);
        try {
            if (endpoint == null && all.size() >= MOST) {
                throw new TooManyBrokers();
            }
            if (endpoint == null) {
                endpoint = add(node, next(), upstream);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return new Address(process.config.advertise, endpoint.listens().port());
    }

    /** More brokers than any cluster has. */
    static final class TooManyBrokers extends IOException {
        private static final long serialVersionUID = 1L;

        TooManyBrokers() {
            super("answers have named more than " + MOST + " brokers, which no cluster has: connections that name others are cut");
        }
    }

    /** A free port, where possible the one behind that of the last listener. */
    private Address next() {
        Address last = all.get(all.size() - 1).listens();
        for (int port = last.port() + 1; port < Math.min(last.port() + 20, 65_536); port++) {
            try (java.net.ServerSocket free = new java.net.ServerSocket()) {
                free.bind(new Address(last.host(), port).socket());
                return new Address(last.host(), port);
            } catch (IOException error) {
                continue;
            }
        }
        return new Address(last.host(), 0);
    }

    /** Calls a method where there is one of that name; null where there is none. */
    private Object call(Object object, String name, Object... arguments) {
        Method method = methods.computeIfAbsent(object.getClass(), kind -> new ConcurrentHashMap<>()).computeIfAbsent(name,
            key -> Arrays.stream(object.getClass().getMethods())
                .filter(one -> one.getName().equals(name) && one.getParameterCount() == arguments.length).findFirst().orElse(NONE));
        try {
            return method == NONE ? null : method.invoke(object, arguments);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static final Method NONE = Object.class.getMethods()[0];
}
