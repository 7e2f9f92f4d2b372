import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.FeatureUpdate.UpgradeType;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What the Java client does when `transaction.version` is lowered from 2 to 1 while a transaction of its is open (docs/clients.md).
 *
 * <pre>java -cp 'DIRECTORY OF KAFKA'S JARS/*' examples/reproducers/LoweredTransactionVersion.java localhost:9092 [TRIES]</pre>
 *
 * Needs a broker of 4.0 or newer that is nobody else's, and a JDK. Settings are the client's own, but for `connections.max.idle.ms`:
 * a client learns of a feature when it connects, so each try lets its connections end. A try:
 *
 * 1. A transaction commits (protocol v2), another one begins.
 * 2. `transaction.version` becomes 1, and the client connects anew.
 * 3. The application sends one record, and commits at once, or after a flush.
 */
public final class LoweredTransactionVersion {
    private static final String TOPIC = "lowered-" + UUID.randomUUID();
    private static final Duration IDLE = Duration.ofSeconds(1);

    public static void main(String[] arguments) throws Exception {
        int tries = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 5;
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            admin.createTopics(List.of(new NewTopic(TOPIC, 1, (short) 1))).all().get();
            for (boolean flush : new boolean[] {false, true}) {
                for (int number = 0; number < tries; number++) {
                    System.out.printf("%s: %s%n", flush ? "flush, then commit" : "commit at once", outcome(admin, arguments[0], flush));
                }
            }
            set(admin, 2);
        }
    }

    private static String outcome(Admin admin, String bootstrap, boolean flush) throws Exception {
        set(admin, 2);
        try (KafkaProducer<String, String> producer = producer(bootstrap)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(TOPIC, "before"));
            producer.commitTransaction();

            producer.beginTransaction();
            set(admin, 1);
            Thread.sleep(IDLE.multipliedBy(2).toMillis());
            connect(admin, producer);
            producer.send(new ProducerRecord<>(TOPIC, "after"));
            if (flush) {
                producer.flush();
            }
            return ended(producer);
        }
    }

    private static String ended(KafkaProducer<String, String> producer) {
        try {
            producer.commitTransaction();
            return "committed";
        } catch (KafkaException error) {
            return "commit: " + name(error) + "; abort: " + aborted(producer);
        }
    }

    private static String aborted(KafkaProducer<String, String> producer) {
        try {
            producer.abortTransaction();
            return "ok";
        } catch (KafkaException error) {
            return name(error);
        }
    }

    /** Metadata of a topic that the client does not know yet: it has to connect for that. */
    private static void connect(Admin admin, KafkaProducer<String, String> producer) throws Exception {
        String other = "other-" + UUID.randomUUID();
        admin.createTopics(List.of(new NewTopic(other, 1, (short) 1))).all().get();
        producer.partitionsFor(other);
    }

    private static KafkaProducer<String, String> producer(String bootstrap) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", bootstrap,
                "transactional.id", UUID.randomUUID().toString(),
                "connections.max.idle.ms", (int) IDLE.toMillis());
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private static void set(Admin admin, int level) throws InterruptedException, ExecutionException {
        UpgradeType type = level == 2 ? UpgradeType.UPGRADE : UpgradeType.SAFE_DOWNGRADE;
        FeatureUpdate update = new FeatureUpdate((short) level, type);
        admin.updateFeatures(Map.of("transaction.version", update), new UpdateFeaturesOptions()).all().get();
    }

    private static String name(KafkaException error) {
        return error.getClass().getSimpleName() + (error.getCause() == null ? "" : " (" + error.getCause().getClass().getSimpleName() + ")");
    }
}
