import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;

/**
 * A double of Redpanda's image, for the provider that starts it: the command line of {@code rpk redpanda start}, the file
 * .bootstrap.yaml, the Admin API and the versions of Kafka's requests are Redpanda's; behind them is a broker of Kafka.
 *
 * <p>The image has Java's launcher under the name rpk, so {@code rpk redpanda start ...} runs this class with {@code start ...}.
 * Kafka listens behind fencepost's fault proxy, which lowers the versions that it says it takes, cuts requests that Redpanda
 * does not have, and gives lists of aborted transactions in another order. Whatever the double does not know ends it, with
 * exit code 1: a flag, a property, a setting.
 */
public final class redpanda {
    private static final Path BOOTSTRAP = Path.of("/etc/redpanda/.bootstrap.yaml");
    private static final Path DATA = Path.of("/var/lib/redpanda/data");
    private static final String CLUSTER = "ZmVuY2Vwb3N0ZG91YmxlMQ"; // an id of Kafka, the same for all
    private static final int BEHIND = 10_000; // Kafka's own port for clients, above the one that they are told
    private static final int BETWEEN = 20_000; // and for other brokers
    private static final Pattern TRANSFER =
            Pattern.compile("/v1/partitions/kafka/([^/]+)/(\\d+)/transfer_leadership\\?target=(\\d+)");

    public static void main(String[] args) throws Exception {
        if (args.length == 0 || !args[0].equals("start")) throw new IllegalArgumentException("rpk redpanda start ...");
        CommandLine line = CommandLine.of(List.of(args).subList(1, args.length));
        Map<String, String> properties = bootstrap();
        Files.writeString(Path.of(line.flag("config")), "redpanda: {}\n"); // rpk keeps its settings there
        Path settings = DATA.resolve("double.properties");
        Files.writeString(settings, kafka(line, properties));
        if (!Files.exists(DATA.resolve("kafka/meta.properties"))) {
            child(List.of("-cp", "/opt/kafka/libs/*", "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", settings.toString()))
                    .waitFor();
        }
        proxy(line);
        serve(line);
        kafka.Kafka.main(new String[] {settings.toString()});
    }

    /** The flags of {@code rpk redpanda start}; those with a value are written --NAME=VALUE, but for --set. */
    private record CommandLine(Map<String, String> flags, Map<String, String> set) {
        private static final Set<String> KNOWN = Set.of(
                "overprovisioned", "reserve-memory", "check", "unsafe-bypass-fsync", "config", "node-id", "kafka-addr",
                "advertise-kafka-addr", "rpc-addr", "advertise-rpc-addr", "seeds", "smp", "memory", "default-log-level");
        private static final Set<String> SETTINGS =
                Set.of("redpanda.developer_mode", "redpanda.empty_seed_starts_cluster", "redpanda.admin");

        static CommandLine of(List<String> words) {
            Map<String, String> flags = new HashMap<>();
            Map<String, String> set = new HashMap<>();
            for (int at = 0; at < words.size(); at++) {
                String word = words.get(at);
                if (word.equals("--set")) {
                    String[] pair = words.get(++at).split("=", 2);
                    if (!SETTINGS.contains(pair[0])) throw new IllegalArgumentException("unknown setting " + pair[0]);
                    set.put(pair[0], pair[1]);
                    continue;
                }
                String[] pair = word.split("=", 2);
                if (!word.startsWith("--") || !KNOWN.contains(pair[0].substring(2)))
                    throw new IllegalArgumentException("unknown flag " + word);
                flags.put(pair[0].substring(2), pair.length == 2 ? pair[1] : "true");
            }
            return new CommandLine(flags, set);
        }

        String flag(String name) {
            return Optional.ofNullable(flags.get(name)).orElseThrow(() -> new IllegalArgumentException("--" + name + " is missing"));
        }

        String host() {
            return flag("advertise-kafka-addr").split(":")[0];
        }

        int port() {
            return Integer.parseInt(flag("advertise-kafka-addr").split(":")[1]);
        }
    }

    /** The cluster properties, each of which Redpanda has. */
    private static Map<String, String> bootstrap() throws IOException {
        Set<String> known = Set.of(
                "write_caching_default", "auto_create_topics_enabled", "default_topic_replications",
                "internal_topic_replication_factor", "transaction_coordinator_partitions", "group_topic_partitions",
                "group_initial_rebalance_delay", "storage_min_free_bytes", "log_segment_size_min");
        Map<String, String> properties = new HashMap<>();
        for (String text : Files.readAllLines(BOOTSTRAP)) {
            String[] pair = text.split(": ", 2);
            if (!known.contains(pair[0])) throw new IllegalArgumentException("unknown property " + pair[0]);
            properties.put(pair[0], pair[1].replace("\"", ""));
        }
        return properties;
    }

    /** Settings of a broker that is a controller too: all seeds are, and the n-th of them is node n. */
    private static String kafka(CommandLine line, Map<String, String> properties) {
        String[] seeds = line.flag("seeds").split(",");
        int id = Integer.parseInt(line.flag("node-id"));
        if (!seeds[id - 1].equals(line.flag("advertise-rpc-addr"))) throw new IllegalArgumentException("the seeds are not in order");
        if (!line.flag("unsafe-bypass-fsync").equals("false")) throw new IllegalArgumentException("nothing would be synced");
        List<String> voters = new ArrayList<>();
        for (int at = 0; at < seeds.length; at++) voters.add((at + 1) + "@" + seeds[at]);
        String host = line.host();
        int port = line.port();
        String listeners = "CLIENT://" + host + ":" + (port + BEHIND) + ",BROKER://" + host + ":" + (port + BETWEEN);
        String replicas = properties.get("internal_topic_replication_factor");
        return String.join(
                "\n",
                "process.roles=broker,controller",
                "node.id=" + id,
                "controller.quorum.voters=" + String.join(",", voters),
                "controller.listener.names=CONTROLLER",
                "inter.broker.listener.name=BROKER",
                "listener.security.protocol.map=CLIENT:PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "listeners=" + listeners + ",CONTROLLER://" + line.flag("rpc-addr"),
                "advertised.listeners=" + listeners.replace("CLIENT://" + host + ":" + (port + BEHIND), "CLIENT://" + host + ":" + port),
                "log.dirs=" + DATA.resolve("kafka"),
                "auto.create.topics.enable=" + properties.get("auto_create_topics_enabled"),
                "min.insync.replicas=2",
                "offsets.topic.replication.factor=" + replicas,
                "transaction.state.log.replication.factor=" + replicas,
                "transaction.state.log.min.isr=" + Math.min(2, Integer.parseInt(replicas)),
                "offsets.topic.num.partitions=" + properties.get("group_topic_partitions"),
                "transaction.state.log.num.partitions=" + properties.get("transaction_coordinator_partitions"),
                "group.initial.rebalance.delay.ms=" + properties.get("group_initial_rebalance_delay"),
                "broker.session.timeout.ms=6000",
                "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",
                "");
    }

    /** Requests as Redpanda has them (its handlers at 1c6cff3): versions, those that it lacks, the order of aborted lists. */
    private static void proxy(CommandLine line) throws IOException {
        String lower = "{\"Produce\": 7, \"Fetch\": 11, \"ListOffsets\": 4, \"Metadata\": 8, \"OffsetCommit\": 7, \"OffsetFetch\": 7,"
                + " \"FindCoordinator\": 3, \"JoinGroup\": 5, \"SyncGroup\": 3, \"Heartbeat\": 3, \"LeaveGroup\": 3,"
                + " \"CreateTopics\": 6, \"InitProducerId\": 3, \"AddPartitionsToTxn\": 1, \"AddOffsetsToTxn\": 1, \"EndTxn\": 1,"
                + " \"TxnOffsetCommit\": 3, \"DescribeConfigs\": 4, \"IncrementalAlterConfigs\": 1}";
        String lacking = "[\"ElectLeaders\", \"UnregisterBroker\", \"UpdateFeatures\", \"WriteTxnMarkers\", \"DescribeQuorum\","
                + " \"DescribeTopicPartitions\", \"ConsumerGroupHeartbeat\", \"ConsumerGroupDescribe\"]";
        String rules = "[{\"name\": \"versions\", \"api\": \"ApiVersions\", \"on\": \"answer\", \"act\": \"alter\","
                + " \"transform\": \"lower-api-versions\", \"lower\": " + lower + "},"
                + " {\"name\": \"order\", \"api\": \"Fetch\", \"on\": \"answer\", \"act\": \"alter\", \"transform\": \"reverse-aborted\"},"
                + " {\"name\": \"lacking\", \"api\": " + lacking + ", \"act\": \"cut\"}]";
        String broker = "{\"upstream\": \"" + line.host() + ":" + (line.port() + BEHIND) + "\", \"listen\": \"" + line.flag("kafka-addr") + "\"}";
        String settings = "{\"brokers\": [" + broker + "], \"rewrite\": false, \"advertise\": \"" + line.host() + "\","
                + " \"control\": \"127.0.0.1:0\", \"node\": \"proxy\", \"most_frame_bytes\": 33554432, \"first\": 0,"
                + " \"record\": null, \"tls\": {}, \"rules\": " + rules + "}\n";
        Process proxy = child(List.of("-Xmx192m", "-XX:+UseSerialGC", "-cp", "/opt/double/proxy.jar:/opt/kafka/libs/*", "fencepost.proxy.Proxy", "-"));
        OutputStream input = proxy.getOutputStream(); // stays open: the proxy ends with it
        input.write(settings.getBytes(StandardCharsets.UTF_8));
        input.flush();
    }

    private static Process child(List<String> arguments) throws IOException {
        List<String> words = new ArrayList<>(List.of(System.getProperty("java.home") + "/bin/java"));
        words.addAll(arguments);
        ProcessBuilder builder = new ProcessBuilder(words).redirectErrorStream(true);
        builder.redirectOutput(ProcessBuilder.Redirect.INHERIT);
        builder.environment().remove("JDK_JAVA_OPTIONS");
        return builder.start();
    }

    /** The Admin API, at the address of the setting redpanda.admin. */
    private static void serve(CommandLine line) throws IOException {
        Matcher address = Pattern.compile("\\[\\{\"address\":\"([^\"]+)\",\"port\":(\\d+)\\}\\]").matcher(line.set().get("redpanda.admin"));
        if (!address.matches()) throw new IllegalArgumentException("redpanda.admin cannot be read");
        HttpServer server = HttpServer.create(new InetSocketAddress(address.group(1), Integer.parseInt(address.group(2))), 0);
        server.createContext("/", exchange -> answer(line, exchange));
        server.setExecutor(Executors.newCachedThreadPool());
        server.start();
    }

    private static void answer(CommandLine line, HttpExchange exchange) throws IOException {
        Matcher path = TRANSFER.matcher(exchange.getRequestURI().toString());
        int code = 404;
        String text = "{\"message\": \"Not found\", \"code\": 404}";
        if (path.matches() && exchange.getRequestMethod().equals("POST")) {
            String refused = transfer(line, new TopicPartition(path.group(1), Integer.parseInt(path.group(2))), Integer.parseInt(path.group(3)));
            code = refused == null ? 200 : 503;
            text = refused == null ? "" : "{\"message\": \"" + refused + "\", \"code\": 503}";
        }
        System.out.println("admin: " + exchange.getRequestMethod() + " " + exchange.getRequestURI() + " " + code);
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(code, body.length == 0 ? -1 : body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    /** Has another replica lead: it becomes the first one of them, and is elected, beside the proxy. Returns why not, or null. */
    private static String transfer(CommandLine line, TopicPartition partition, int target) {
        Map<String, Object> settings = Map.of("bootstrap.servers", line.host() + ":" + (line.port() + BETWEEN), "default.api.timeout.ms", 4000, "request.timeout.ms", 4000);
        try (Admin admin = Admin.create(settings)) {
            TopicPartitionInfo info = admin.describeTopics(List.of(partition.topic())).allTopicNames().get(4, TimeUnit.SECONDS)
                    .get(partition.topic()).partitions().get(partition.partition());
            Collection<Integer> order = new LinkedHashSet<>(List.of(target));
            List<Integer> present = info.replicas().stream().map(Node::id).toList();
            if (!present.contains(target)) return "node " + target + " has no replica";
            order.addAll(present);
            NewPartitionReassignment wanted = new NewPartitionReassignment(new ArrayList<>(order));
            admin.alterPartitionReassignments(Map.of(partition, Optional.of(wanted))).all().get(4, TimeUnit.SECONDS);
            admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).partitions().get(4, TimeUnit.SECONDS);
            return null;
        } catch (Exception error) {
            return String.valueOf(error.getMessage()).replace('"', '\'');
        }
    }
}
